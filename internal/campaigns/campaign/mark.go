package campaign

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Mark returns a fingerprint of a campaign's definition and time. Whoever changes a campaign names the mark that they have seen, so that
// nobody replaces what they have not read. A segment's expression is left out: the server reads it, and nobody writes it here.
func (c *Campaign) Mark() string { return mark(c.Spec, c.SendAt) }

func mark(spec Spec, sendAt time.Time) string {
	spec.Segment = nil
	says, err := json.Marshal(struct {
		Spec   *Spec
		SendAt int64
	}{&spec, sendAt.UnixMilli()})
	if err != nil {
		return "unreadable" // cannot happen: the definition was read from JSON
	}
	sum := sha256.Sum256(says)
	return hex.EncodeToString(sum[:8])
}

// replaceable reports whether somebody who has seen this mark may replace the campaign's definition. Storing the same again loses nothing,
// as when a button is pressed twice.
func (c *Campaign) replaceable(seen string, spec Spec, sendAt time.Time) bool {
	now := c.Mark()
	return seen == "" || seen == now || mark(spec, sendAt) == now
}
