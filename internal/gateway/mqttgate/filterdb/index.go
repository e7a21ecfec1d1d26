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

// match returns the mailboxes of devices that follow a topic alone, and for each shared filter those of its members.
func (x *index) match(name string, now time.Time) (alone []string, shared [][]string) {
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
	for _, members := range queues {
		x.turn++
		n := x.turn % len(members)
		shared = append(shared, append(members[n:len(members):len(members)], members[:n]...))
	}
	return alone, shared
}

// choose adds one member of each shared filter, if possible one that is here, and leaves out what is there twice.
func choose(alone []string, shared [][]string, here func(string) bool) []string {
	for _, members := range shared {
		i := max(0, slices.IndexFunc(members, here))
		alone = append(alone, members[i])
	}
	slices.Sort(alone)
	return slices.Compact(alone)
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
