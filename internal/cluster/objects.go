package cluster

import (
	"encoding/json"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Objects is the part of *signal.Service that this package uses.
type Objects interface {
	Heard(batch []objectstore.Change)
	TellOthers(tell func(batch []objectstore.Change))
	Missed()
}

// objects sends changes of objects to the other nodes over a line of its own. All changes go to all nodes: every node with a registration
// for the object needs them, and few objects have registrations on one node only.
type objects struct {
	c    *Cluster
	line Line
	of   Objects
}

const (
	objectsSubject = "o"
	tellAtMost     = 100 // changes in one message: half a megabyte if all have the largest size
)

// JoinObjects connects objects with the cluster, over a line of their own. Lost changes are found in the store.
func (c *Cluster) JoinObjects(open Opener, of Objects) error {
	o := &objects{c: c, of: of}
	var err error
	if o.line, err = open(o.got, of.Missed); err != nil {
		return err
	}
	if _, err := o.line.Subscribe(objectsSubject); err != nil {
		return fmt.Errorf("join the other nodes: %w", err)
	}
	of.TellOthers(o.tell)
	c.objects.Store(o)
	return nil
}

// objectsMissed makes objects read their changes from the store: if one line loses messages, others may too.
func (c *Cluster) objectsMissed() {
	if o := c.objects.Load(); o != nil {
		o.of.Missed()
	}
}

// change is the encoded form of a signal.Change.
type change struct {
	App         string         `json:"app"`
	Group       string         `json:"group"`
	Object      string         `json:"object"`
	Version     object.Version `json:"version"`
	Known       bool           `json:"known,omitempty"`
	Payload     []byte         `json:"payload,omitempty"`
	ContentType string         `json:"content_type,omitempty"`
	Source      object.Origin  `json:"source"`
	UpdatedMS   int64          `json:"updated_ms"`
}

// tell sends a commit's changes to the other nodes.
func (o *objects) tell(batch []objectstore.Change) {
	if o.c.alone() {
		return
	}
	for len(batch) > 0 {
		n := min(len(batch), tellAtMost)
		list := make([]change, n)
		for i, ch := range batch[:n] {
			list[i] = change{
				App: ch.App, Group: ch.Key.Group, Object: ch.Key.Object, Version: ch.State.Version, Known: ch.State.Known, Payload: ch.State.Payload,
				ContentType: ch.State.ContentType, Source: ch.State.Origin, UpdatedMS: ch.State.UpdatedAt.UnixMilli(),
			}
		}
		m := message{kind: kindObjects, from: o.c.cfg.Boot, body: text(list)}
		_ = o.line.Publish(objectsSubject, m.append(nil)) // if it fails, the other nodes find the changes in the store
		batch = batch[n:]
	}
}

// got handles changes from other nodes.
func (o *objects) got(_ string, data []byte) {
	m, err := decode(data)
	var list []change
	if err == nil && m.version == version && m.kind == kindObjects {
		err = json.Unmarshal(m.body, &list)
	}
	if err != nil || m.version != version {
		o.c.counts.undecoded.Add(1)
		o.of.Missed()
		return
	}
	batch := make([]objectstore.Change, len(list))
	for i, ch := range list {
		batch[i] = objectstore.Change{App: ch.App, Key: object.Key{Group: ch.Group, Object: ch.Object}, State: &object.State{
			Version: ch.Version, Known: ch.Known, Payload: ch.Payload, ContentType: ch.ContentType, Origin: ch.Source, UpdatedAt: time.UnixMilli(ch.UpdatedMS),
		}}
	}
	o.of.Heard(batch)
}
