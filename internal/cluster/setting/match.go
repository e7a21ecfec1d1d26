package setting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Match is the revision that a setting must have to be changed or deleted, so that of two people who change what both have read, the later one
// is told. The zero value takes any.
type Match struct{ must *string }

// Exactly matches one revision. An empty one matches a setting that does not exist yet.
func Exactly(revision string) Match { return Match{&revision} }

// Check fails with *ChangedError if a setting has another revision than now. what names the setting, like "hook billing"; now is empty if it
// does not exist.
func (m Match) Check(what, now string) error {
	switch {
	case m.must == nil || *m.must == now:
		return nil
	case *m.must == "":
		return &ChangedError{what + " exists already"}
	case now == "":
		return &ChangedError{what + " does not exist, or not any more"}
	}
	return &ChangedError{"somebody has changed " + what + " meanwhile: read it, and change what it says now"}
}

// ChangedError reports that a setting is not as the caller knows it.
type ChangedError struct{ why string }

func (e *ChangedError) Error() string { return e.why }

// RevisionAt is the revision of a setting that was last changed at a time; the zero time: it does not exist. Each change of a setting has a
// later time than the one before: see After.
func RevisionAt(changed time.Time) string {
	if changed.IsZero() {
		return ""
	}
	return strconv.FormatInt(changed.UnixMilli(), 36)
}

// After returns the time of a change that is made now: later than that of the change before, even if a clock went back.
func After(before, now time.Time) time.Time {
	now = now.UTC().Truncate(time.Millisecond)
	if !now.After(before) {
		now = before.Add(time.Millisecond)
	}
	return now
}

// RevisionOf is the revision of a setting that has no time of its own: it depends on what the setting says. v has no secrets.
func RevisionOf(v any) string {
	text, _ := json.Marshal(v) // settings always encode: they are stored so
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
