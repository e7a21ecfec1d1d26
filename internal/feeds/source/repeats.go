package source

import (
	"context"
	"fmt"

	"godwit.dev/godwit/internal/objects/object"
)

// spread is how many versions from an entry's on belong to its commit. A commit takes at least 34 bytes of PostgreSQL's log, whose positions
// are the versions.
const spread = 30

// repeats gives each further put of one object within one commit a version of its own, so that the last one stands. Those that find no
// version left wait until the commit ends, when only the last of each object is stored.
type repeats struct {
	version object.Version          // of the commit
	puts    map[object.Digest]uint8 // puts so far, by hash of the object
	waiting map[object.Key]*Put
}

// mostWaiting bounds the objects that wait for the end of a commit: each may have MaxPayload.
const mostWaiting = 5_000

// order sets the version of a put that has that of its commit. The outcome of a put that waits, or cannot, is not empty.
func (e *emitter) order(ctx context.Context, commit object.Version, p *Put) (Outcome, error) {
	r := &e.repeats
	if r.version != commit {
		if err := e.endCommit(ctx); err != nil {
			return Outcome{}, err
		}
		*r = repeats{version: commit, puts: make(map[object.Digest]uint8), waiting: make(map[object.Key]*Put)}
	}
	hash := p.Key.Hash()
	if n := r.puts[hash]; n < spread-1 {
		r.puts[hash] = n + 1
		p.Version = commit + object.Version(n)
		return Outcome{}, nil
	}
	if _, waits := r.waiting[p.Key]; !waits && len(r.waiting) >= mostWaiting {
		return Outcome{Quarantined, fmt.Errorf("the commit changes more than %d objects more than %d times", mostWaiting, spread)}, nil
	}
	p.Version = commit + spread - 1
	r.waiting[p.Key] = p
	return Outcome{Fate: Stored}, nil
}

// endCommit stores the puts that wait for the end of a commit.
func (e *emitter) endCommit(ctx context.Context) error {
	for _, p := range e.repeats.waiting {
		err := e.insist(ctx, func() error {
			o, err := e.put(ctx, p)
			if o.Fate == Quarantined {
				e.note(ctx, p.Key.String(), o.Err)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	e.repeats = repeats{}
	return nil
}
