package redisstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
)

// strays moves entries from a client's other stream to the one that is read. A client may have two streams if the number of shards is no
// power of two: some publishers add the halves of its UUID with wrap-around, others without. A crash between copy and deletion leaves two
// entries with the id of one notification; sessions deliver one of them.
type strays struct {
	s     *Store
	wake  chan struct{}
	mu    sync.Mutex
	asked map[string]bool // clients whose other stream may have entries
}

func newStrays(s *Store) *strays {
	return &strays{s: s, wake: make(chan struct{}, 1), asked: make(map[string]bool)}
}

// look schedules a read of a client's other stream. A client without one is left alone, and so are all if y is nil.
func (y *strays) look(client string) {
	if y == nil || otherKey(client, y.s.cfg.MaxShards) == "" {
		return
	}
	y.mu.Lock()
	y.asked[client] = true
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

// take removes up to readBatch clients from those asked for, and returns them.
func (y *strays) take() (clients []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for client := range y.asked {
		if len(clients) == readBatch {
			break
		}
		clients = append(clients, client)
		delete(y.asked, client)
	}
	return clients
}

// run moves entries until ctx ends.
func (y *strays) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-y.wake:
		}
		for clients := y.take(); len(clients) > 0 && ctx.Err() == nil; clients = y.take() {
			if err := y.move(ctx, clients); err != nil {
				if y.s.logged.first("strays") {
					y.s.log.WarnContext(ctx, "entries cannot be moved to the stream that is read, will try again", "error", err)
				}
				for _, client := range clients {
					y.look(client)
				}
				pause.For(ctx, retryEvery)
			}
		}
	}
}

// move moves the entries of these clients that are online.
func (y *strays) move(ctx context.Context, clients []string) error {
	ctx, done := context.WithTimeout(ctx, callWithin)
	defer done()
	l := y.s.link
	var here []string
	var reads []rueidis.Completed
	for _, client := range clients {
		if y.s.online(client) != nil {
			here = append(here, client)
			reads = append(reads, l.rangeFrom(otherKey(client, y.s.cfg.MaxShards), EntryID{}, readEntries))
		}
	}
	for i, res := range l.main.DoMulti(ctx, reads...) {
		list, err := entriesOf(res)
		if err != nil {
			return err
		}
		if err := y.moveTo(ctx, here[i], list); err != nil {
			return err
		}
		if len(list) == readEntries {
			y.look(here[i])
		}
	}
	return nil
}

// moveTo moves entries of a client. An entry keeps its id, from which latency counts, unless the stream has a newer one already.
func (y *strays) moveTo(ctx context.Context, client string, list []raw) error {
	if len(list) == 0 {
		return nil
	}
	main, from, to := y.s.link.main, otherKey(client, y.s.cfg.MaxShards), Key(client, y.s.cfg.MaxShards)
	expire, err := y.lifetime(ctx, from, to)
	if err != nil {
		return err
	}
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.id
		if err := y.copyTo(ctx, to, e); err != nil {
			return fmt.Errorf("copy entry %s of %s: %w", e.id, from, err)
		}
	}
	if expire != nil {
		if err := main.Do(ctx, *expire).Error(); err != nil {
			return fmt.Errorf("set how long %s stays: %w", to, err)
		}
	}
	if err := main.Do(ctx, main.B().Xdel().Key(from).Id(ids...).Build()).Error(); err != nil {
		return fmt.Errorf("delete entries of %s: %w", from, err)
	}
	return nil
}

func (y *strays) copyTo(ctx context.Context, to string, e raw) error {
	add := func(id string) error {
		cmd := y.s.link.main.B().Xadd().Key(to).Id(id).FieldValue()
		for _, f := range e.fields {
			cmd = cmd.FieldValue(f.Name, f.Value)
		}
		return y.s.link.main.Do(ctx, cmd.Build()).Error()
	}
	err := add(e.id)
	if _, refused := rueidis.IsRedisErr(err); refused { // the stream has a newer entry
		err = add("*")
	}
	return err
}

// PTTL's answers that are no time.
const (
	neverExpires = -1
	noKey        = -2
)

// lifetime returns the command that makes a stream stay as long as the one that its entries come from, or nil if it stays as long anyway.
// Publishers renew the expiry only of the stream that they write to.
func (y *strays) lifetime(ctx context.Context, from, to string) (*rueidis.Completed, error) {
	main := y.s.link.main
	var left [2]int64
	for i, res := range main.DoMulti(ctx, main.B().Pttl().Key(from).Build(), main.B().Pttl().Key(to).Build()) {
		ms, err := res.AsInt64()
		if err != nil {
			return nil, fmt.Errorf("ask how long %s and %s stay: %w", from, to, err)
		}
		left[i] = ms
	}
	var c rueidis.Completed
	switch {
	case left[1] == neverExpires, left[0] == noKey, left[0] == neverExpires && left[1] == noKey:
		return nil, nil
	case left[0] == neverExpires:
		c = main.B().Persist().Key(to).Build()
	case left[0] > left[1]:
		c = main.B().Pexpire().Key(to).Milliseconds(left[0]).Build()
	default:
		return nil, nil
	}
	return &c, nil
}
