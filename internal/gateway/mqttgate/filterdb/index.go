package filterdb

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
)

// index finds the devices of an app that follow a topic.
type index struct {
	parse   func(filter string) (queue string, patterns []string)
	tree    topic.Tree[*entry]
	devices map[Device]*kept
	ended   map[Device]ending
	filters int
	turn    int // of shared filters, so that members take turns
}

// ending is when a device's last session ended: a revision, and the time in milliseconds.
type ending struct{ rev, at int64 }

// kept is what an index has of a device.
type kept struct {
	mailbox string
	until   time.Time
	entries []*entry
}

// entry is a filter of a device.
type entry struct {
	of     *kept
	filter string
	share  string // the filter, if a queue shares it
}

func newIndex(parse func(string) (string, []string)) *index {
	return &index{parse: parse, devices: make(map[Device]*kept), ended: make(map[Device]ending)}
}

func (k *kept) find(filter string) int {
	return slices.IndexFunc(k.entries, func(e *entry) bool { return e.filter == filter })
}

// lacks returns how many of some filters of a device are new.
func (x *index) lacks(d Device, filters []string) (n int) {
	k := x.devices[d]
	for _, f := range filters {
		if k == nil || k.find(f) < 0 {
			n++
		}
	}
	return n
}

func (x *index) add(d Device, filter string, until time.Time) {
	k := x.devices[d]
	if k == nil {
		k = &kept{mailbox: d.Mailbox()}
		x.devices[d] = k
	}
	k.until = until
	if k.find(filter) >= 0 {
		return
	}
	e := &entry{of: k, filter: filter}
	queue, patterns := x.parse(filter)
	if queue != "" {
		e.share = filter
	}
	for _, p := range patterns {
		x.tree.Insert(p, e)
	}
	k.entries = append(k.entries, e)
	x.filters++
}

func (x *index) remove(d Device, filter string) {
	k := x.devices[d]
	if k == nil {
		return
	}
	i := k.find(filter)
	if i < 0 {
		return
	}
	_, patterns := x.parse(filter)
	for _, p := range patterns {
		x.tree.Remove(p, k.entries[i])
	}
	x.filters--
	if k.entries = slices.Delete(k.entries, i, i+1); len(k.entries) == 0 {
		delete(x.devices, d)
	}
}

// change makes a change.
func (x *index) change(c *change) {
	k := x.devices[c.of]
	switch {
	case c.what == keep:
		x.add(c.of, c.filter, c.until)
	case k == nil:
	case c.what == extend:
		k.until = c.until
	case c.what == drop:
		x.remove(c.of, c.filter)
	case c.what == forget:
		for len(k.entries) > 0 {
			x.remove(c.of, k.entries[0].filter)
		}
	}
}

// stored makes a change that was stored with a revision.
func (x *index) stored(c *change, rev int64, now time.Time) {
	x.change(c)
	switch {
	case c.what == forget:
		x.ended[c.of] = ending{rev: rev, at: now.UnixMilli()}
	case c.what == unmark && x.ended[c.of].rev == c.rev:
		delete(x.ended, c.of)
	}
}

// group is a shared filter and the mailboxes of its members.
type group struct {
	share   string
	members []string
}

// match returns the mailboxes of devices that follow a topic alone, and for each shared filter those of its members.
func (x *index) match(name string, now time.Time) (alone []string, shared []group) {
	var queues map[string][]string
	x.tree.Match(name, func(e *entry) {
		switch {
		case !e.of.until.After(now):
		case e.share != "":
			if queues == nil {
				queues = make(map[string][]string)
			}
			queues[e.share] = append(queues[e.share], e.of.mailbox)
		default:
			alone = append(alone, e.of.mailbox)
		}
	})
	for share, members := range queues {
		x.turn++
		n := x.turn % len(members)
		shared = append(shared, group{share, append(members[n:len(members):len(members)], members[:n]...)})
	}
	return alone, shared
}

// choose adds one member of each shared filter, if possible one that is here, and leaves out what is there twice. shares are the shared filters by
// which a mailbox was chosen.
func choose(alone []string, shared []group, here func(string) bool) (boxes []string, shares map[string][]string) {
	for _, g := range shared {
		box := g.members[max(0, slices.IndexFunc(g.members, here))]
		alone = append(alone, box)
		if shares == nil {
			shares = make(map[string][]string)
		}
		shares[box] = append(shares[box], g.share)
	}
	slices.Sort(alone)
	return slices.Compact(alone), shares
}

// members returns the mailboxes of the devices that share a filter, sorted.
func (x *index) members(share string, now time.Time) (list []string) {
	for _, k := range x.devices {
		if i := k.find(share); i >= 0 && k.entries[i].share != "" && k.until.After(now) {
			list = append(list, k.mailbox)
		}
	}
	slices.Sort(list)
	return list
}

// shares reports whether a device has a shared filter.
func (k *kept) shares() bool {
	return k != nil && slices.ContainsFunc(k.entries, func(e *entry) bool { return e.share != "" })
}

func (x *index) filtersOf(d Device, now time.Time) (list []string) {
	k := x.devices[d]
	if k == nil || !k.until.After(now) {
		return nil
	}
	for _, e := range k.entries {
		list = append(list, e.filter)
	}
	return list
}
