package signal

import (
	"cmp"
	"context"
	"slices"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Put changes one object and returns its state once that is on disk.
func (s *Service) Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error) {
	if err := k.Check(); err != nil {
		return st, false, err
	}
	if err := p.Check(); err != nil {
		return st, false, err
	}
	v := &objectstore.Put{App: app, Key: k, Put: *p, At: s.cfg.Now().Truncate(time.Millisecond)}
	if err := s.store.Put(ctx, []*objectstore.Put{v}); err != nil {
		return st, false, err
	}
	return v.State, v.Changed, v.Err
}

// Get reads one object. ok is false if it was never put.
func (s *Service) Get(ctx context.Context, app string, k object.Key) (st object.State, ok bool, err error) {
	states, err := s.store.Get(ctx, app, []object.Key{k})
	if err != nil {
		return st, false, err
	}
	return states[0], !states[0].UpdatedAt.IsZero(), nil
}

// List reads objects of a group whose names begin with prefix, by name. next is the cursor of the next page, or empty.
func (s *Service) List(ctx context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, next string, err error) {
	items, err = s.store.List(ctx, app, group, prefix, after, limit+1)
	if err != nil || len(items) <= limit {
		return items, "", err
	}
	return items[:limit], items[limit-1].Key.Object, nil
}

// Groups lists the groups of an app's objects by name. next is the cursor of the next page, or empty.
func (s *Service) Groups(ctx context.Context, app, after string, limit int) (groups []string, next string, err error) {
	groups, err = s.store.Groups(ctx, app, after, limit+1)
	if err != nil || len(groups) <= limit {
		return groups, "", err
	}
	return groups[:limit], groups[limit-1], nil
}

// Registration is one client's registration for an object, in the form for views.
type Registration struct {
	Key                object.Key
	Recipient, Group   string
	Device             string // empty: lasts for the session
	Online             bool
	LastSeen           time.Time
	SentVersion, Acked object.Version
}

// Registrations lists the clients that are registered for an object, online or not.
func (s *Service) Registrations(ctx context.Context, app string, k object.Key) ([]Registration, error) {
	found := s.liveRegistrations(app, k)
	here := make(map[objectstore.ClientID]bool, len(found))
	for i := range found {
		here[objectstore.ClientID{App: app, Recipient: found[i].Recipient, Group: found[i].Group, Device: found[i].Device}] = true
	}
	for cursor := int64(0); ; {
		stored, next, err := s.store.Watchers(ctx, app, k, cursor, allLooks)
		if err != nil {
			return nil, err
		}
		for _, w := range stored {
			if !here[w.ID] {
				found = append(found, Registration{
					Key: k, Recipient: w.ID.Recipient, Group: w.ID.Group, Device: w.ID.Device, LastSeen: w.SeenAt, SentVersion: w.Sent, Acked: w.Acked,
				})
			}
		}
		if next == 0 {
			break
		}
		cursor = next
	}
	slices.SortFunc(found, compareRegistrations)
	return found, nil
}

// How many stored clients one read examines to find those that are registered for an object. There is no index over all registrations.
const (
	allLooks = 200 // when all are requested; above some thousands PostgreSQL would read the whole progress table
	// WatchLooks limits the clients that a part of Watching examines, which takes some milliseconds, however few of them are registered.
	WatchLooks = 2000
)

// Watching lists an object's registrations in parts, for views. The first part has at most most clients that are connected to this node,
// and the registered ones among the first stored clients; each further part begins behind next. more: further clients are connected here. A
// part ends when it has most clients or more (at most twice as many), or when WatchLooks clients were examined.
func (s *Service) Watching(ctx context.Context, app string, k object.Key, after int64, most int) (found []Registration, more bool, next int64, err error) {
	if after == 0 {
		if found = s.liveRegistrations(app, k); len(found) > most {
			found, more = found[:most], true
		}
	}
	next = after
	for looked := 0; looked < WatchLooks; looked += most {
		var stored []objectstore.Watcher
		if stored, next, err = s.store.Watchers(ctx, app, k, next, most); err != nil {
			return nil, false, 0, err
		}
		for _, w := range stored {
			if !s.connected(w.ID) {
				found = append(found, Registration{
					Key: k, Recipient: w.ID.Recipient, Group: w.ID.Group, Device: w.ID.Device, LastSeen: w.SeenAt, SentVersion: w.Sent, Acked: w.Acked,
				})
			}
		}
		if next == 0 || len(found) >= most {
			break
		}
	}
	slices.SortFunc(found, compareRegistrations)
	return found, more, next, nil
}

// connected reports whether a client has a session here, in which case its registrations are listed from memory.
func (s *Service) connected(id objectstore.ClientID) bool {
	for _, c := range s.roster.of(id.App, id.Recipient) {
		c.mu.Lock()
		here := c.id == id && c.session != nil && c.phase == loaded
		c.mu.Unlock()
		if here {
			return true
		}
	}
	return false
}

func compareRegistrations(a, b Registration) int {
	return cmp.Or(cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Group, b.Group))
}

func (s *Service) liveRegistrations(app string, k object.Key) (found []Registration) {
	w := s.index.find(name{app, k})
	if w == nil {
		return nil
	}
	now := s.cfg.Now()
	for _, l := range w.listed(&s.index.sessions, nil) {
		c := l.c
		c.mu.Lock()
		if r := c.find(w.id); r != nil && c.session == l {
			found = append(found, c.view(k, r, now))
		}
		c.mu.Unlock()
	}
	return found
}

func (c *Client) view(k object.Key, r *reg, now time.Time) Registration {
	return Registration{
		Key: k, Recipient: c.id.Recipient, Group: c.id.Group, Device: c.id.Device, Online: true, LastSeen: now, SentVersion: r.sent, Acked: r.acked,
	}
}

// OfRecipient lists all registrations of a recipient's devices and sessions.
func (s *Service) OfRecipient(ctx context.Context, app, recipient string) (found []Registration, err error) {
	here := make(map[objectstore.ClientID]bool)
	now := s.cfg.Now()
	for _, c := range s.roster.of(app, recipient) {
		c.mu.Lock()
		if c.session != nil && c.phase == loaded {
			here[c.id] = true
			for i := range c.regs {
				found = append(found, c.view(s.index.get(c.regs[i].id).key, &c.regs[i], now))
			}
		}
		c.mu.Unlock()
	}
	stored, err := s.store.Clients(ctx, app, recipient)
	if err != nil {
		return nil, err
	}
	for _, v := range stored {
		if here[v.ID] {
			continue
		}
		have := make(map[object.Digest]objectstore.Progress, len(v.Progress))
		for _, p := range v.Progress {
			have[p.Object] = p
		}
		for _, k := range v.Keys {
			p := have[k.Hash()]
			found = append(found, Registration{
				Key: k, Recipient: recipient, Group: v.ID.Group, Device: v.ID.Device, LastSeen: v.SeenAt, SentVersion: p.Sent, Acked: p.Acked,
			})
		}
	}
	slices.SortFunc(found, func(a, b Registration) int { return cmp.Or(cmp.Compare(a.Device, b.Device), a.Key.Compare(b.Key)) })
	return found, nil
}

// Erase deletes all registrations of a recipient. Its sessions get no further states: the caller has to end them, even if Erase fails.
func (s *Service) Erase(ctx context.Context, app, recipient string) error {
	var saves []<-chan struct{}
	for _, c := range s.roster.of(app, recipient) {
		c.mu.Lock()
		c.detach()
		s.roster.remove(c)
		if ended := c.saves.wait(); ended != nil {
			saves = append(saves, ended)
		}
		c.mu.Unlock()
	}
	for _, ended := range saves { // or it would come back
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.store.Erase(ctx, app, recipient)
}
