package godwit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// rememberedSeen is the number of notifications that a Deduplicator remembers; api/vectors/push.json sets it for all languages.
	rememberedSeen = 500
	// idReuse is how long the server rejects the id of a settled notification; afterwards it may be published again.
	idReuse = 24 * time.Hour
)

// Deduplicator remembers the last 500 notifications on this device, so that a notification that arrives both over the live connection and
// by push is shown once. Call Seen before showing and Shown afterwards: if the program is killed in between, the notification is shown
// again rather than lost. Its file belongs to one recipient and one program at a time.
type Deduplicator struct {
	file string

	mu   sync.Mutex
	list seenList
	now  func() time.Time
}

// OpenDeduplicator reads the file, if it exists. An invalid file is treated like a missing one: at worst, a notification is shown twice.
// With an empty name, all state is kept in memory.
func OpenDeduplicator(file string) (*Deduplicator, error) {
	d := &Deduplicator{file: file, now: time.Now}
	if file == "" {
		return d, nil
	}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err != nil:
		return nil, fmt.Errorf("read ids that were seen: %w", err)
	}
	var f seenFile
	if json.Unmarshal(b, &f) != nil {
		return d, nil
	}
	if f.Format > seenFormat {
		return nil, fmt.Errorf("read ids that were seen: %s was written by a later version of this program", file)
	}
	d.list = f.IDs[max(0, len(f.IDs)-rememberedSeen):]
	return d, nil
}

// Seen reports whether a notification must not be shown, because it is shown already, was acknowledged or was recalled.
func (d *Deduplicator) Seen(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list.state(id, d.now()) != seenNever
}

// Shown records that a notification is shown. The record is on disk when Shown returns.
func (d *Deduplicator) Shown(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list.state(id, d.now()) != seenNever {
		return nil
	}
	return d.keep(d.list.with(seenID{ID: id}))
}

// Settled records that a notification was acknowledged or recalled, even if it has not arrived yet. If shown is true, it was on the screen
// until now: remove it, and acknowledge it unless it was recalled. The record is on disk when Settled returns.
func (d *Deduplicator) Settled(id string) (shown bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now().UTC().Truncate(time.Millisecond)
	before := d.list.state(id, now)
	if before == seenSettled {
		return false, nil
	}
	return before == seenShown, d.keep(d.list.with(seenID{ID: id, Settled: &now}))
}

// Held returns the notifications that are shown now, for Listen's option Held.
func (d *Deduplicator) Held() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for _, s := range d.list {
		if s.Settled == nil {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (d *Deduplicator) keep(list seenList) error {
	if d.file != "" {
		b, err := json.Marshal(seenFile{Format: seenFormat, IDs: list})
		if err == nil {
			err = replaceFile(d.file, append(b, '\n'))
		}
		if err != nil {
			return fmt.Errorf("write ids that were seen: %w", err)
		}
	}
	d.list = list
	return nil
}

// seenFormat is the version of the file's format. It grows with changes that older programs cannot read.
const seenFormat = 1

// seenFile is the file's content, the same in every language.
type seenFile struct {
	Format int      `json:"format"`
	IDs    seenList `json:"ids"`
}

// seenID is one notification that was received.
type seenID struct {
	ID      string     `json:"id"`
	Settled *time.Time `json:"settled,omitempty"` // nil: it is shown
}

// seenList lists received notifications, the newest last.
type seenList []seenID

type seenState int

const (
	seenNever seenState = iota
	seenShown
	seenSettled
)

func (l seenList) state(id string, now time.Time) seenState {
	i := slices.IndexFunc(l, func(s seenID) bool { return s.ID == id })
	switch {
	case i < 0:
		return seenNever
	case l[i].Settled == nil:
		return seenShown
	case now.Before(l[i].Settled.Add(idReuse)):
		return seenSettled
	}
	return seenNever
}

// with returns the list with s added as the newest entry.
func (l seenList) with(s seenID) seenList {
	next := make(seenList, 0, len(l)+1)
	for _, other := range l {
		if other.ID != s.ID {
			next = append(next, other)
		}
	}
	next = append(next, s)
	return next[max(0, len(next)-rememberedSeen):]
}
