package cluster

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
)

// former supports nodes of the previous release, which keep no tables: each subscribes to a subject for every recipient that is connected
// to it, and publishes to these subjects. As long as one of these nodes is alive, this node does the same, in addition to its use of
// tables.
//
// The next release does not need this file: delete it and all uses of c.former.
type former struct {
	here atomic.Bool // such a node is heard
	mu   sync.Mutex
	ends map[uint64]interface{ End() } // subscriptions, by hash
}

// look begins and ends the subscriptions that nodes of the previous release need. It is called when nodes may have come or gone.
func (f *former) look(c *Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	here := false
	c.nodes.mu.Lock()
	for _, n := range c.nodes.by {
		here = here || n.Table == 0 && !n.heard.IsZero()
	}
	c.nodes.mu.Unlock()
	switch was := f.here.Load(); {
	case here && !was:
		f.ends = make(map[uint64]interface{ End() })
		f.here.Store(true) // from now on, changed handles new recipients
		for _, h := range c.wants.all() {
			f.keep(c, h)
		}
	case !here && was:
		f.here.Store(false)
		for _, of := range f.ends {
			of.End()
		}
		f.ends = nil
	}
}

// changed subscribes or unsubscribes after a recipient has come or left.
func (f *former) changed(c *Cluster, h uint64) {
	if !f.here.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends != nil {
		f.keep(c, h)
	}
}

// keep subscribes to a recipient's subject if the recipient is connected here, and otherwise ends the subscription. f.mu is held.
func (f *former) keep(c *Cluster, h uint64) {
	of, wanted := f.ends[h], c.wants.has(h)
	switch {
	case wanted && of == nil:
		var err error
		if of, err = c.line.Subscribe(subjectOfHash(h)); err != nil {
			c.log.Warn("nodes of the release before cannot be told of a session; it reads its mailbox now and then", "error", err)
			return
		}
		f.ends[h] = of
	case !wanted && of != nil:
		of.End()
		delete(f.ends, h)
	}
}

// subjects appends a recipient's subject.
func (f *former) subjects(to []string, h uint64) []string {
	if f.here.Load() {
		to = append(to, subjectOfHash(h))
	}
	return to
}

// twice reports whether a message has also arrived on this node's own subject: a node that keeps tables sends it on both.
func (f *former) twice(c *Cluster, subject, from string) bool {
	return strings.HasPrefix(subject, recipientSubject) && c.tables.has(from)
}

// has reports whether a node keeps tables.
func (ts *tables) has(boot string) bool {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.find(boot) != nil
}

// subjectOfHash returns a subject with 11 characters after a prefix.
func subjectOfHash(h uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	return recipientSubject + base64.RawURLEncoding.EncodeToString(b[:])
}

const recipientSubject = "r."
