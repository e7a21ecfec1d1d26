package cluster

import (
	"errors"
	"time"
)

// Directory is the part of a node that grows with the recipients of all nodes, without connections: who is connected here, the other nodes'
// tables, and the names of the node for which this one is the backup. Measurements fill it with messages that nodes would send.
type Directory struct {
	wants    interests
	tables   tables
	backedUp backedUp
}

// NewDirectory returns the directory of a node that has heard nothing.
func NewDirectory() *Directory {
	return &Directory{backedUp: backedUp{names: make(map[string]*names)}}
}

// Connect records that a recipient is connected to this node.
func (d *Directory) Connect(hash uint64) { d.wants.add(hash, 1) }

// Heard records a heartbeat with the number of the last change of the sender's table, and reports whether this node would ask for the table.
func (d *Directory) Heard(boot string, number uint64) (asks bool) {
	return d.tables.lacks(boot, number, time.Now())
}

// Take handles a message of a table, or for the backup.
func (d *Directory) Take(data []byte) error {
	m, err := decode(data)
	if err != nil {
		return err
	}
	switch m.kind {
	case kindTable:
		n, err := decodeNews(m.body)
		if err != nil {
			return err
		}
		d.tables.take(m.from, &n, time.Now())
	case kindRoster:
		r, err := decodeRoster(m.body)
		if err != nil {
			return err
		}
		d.backedUp.note(&r)
	default:
		return errors.New("neither a message of a table nor for the backup")
	}
	return nil
}

// Nodes appends the subjects of the nodes to which a message for a recipient goes.
func (d *Directory) Nodes(to []string, app, recipient string) []string {
	return d.tables.subjects(to, hashOf(app, recipient))
}

// Forget removes a node that has gone.
func (d *Directory) Forget(boot string) { d.tables.forget(boot) }

// Names calls do with the names that this node has as a backup.
func (d *Directory) Names(do func(app, recipient string)) {
	for app, of := range d.backedUp.names {
		for name := range of.all() {
			do(app, name)
		}
	}
}

// HashOf returns the hash by which nodes identify a recipient.
func HashOf(app, recipient string) uint64 { return hashOf(app, recipient) }

// Most hashes and names in one message.
const (
	HashesAtOnce = hashesAtOnce
	NamesAtOnce  = namesAtOnce
)

// TableBytesASecond is the pace at which a node that has joined gets the tables of a number of other nodes.
func TableBytesASecond(others int) float64 {
	return float64(min(others, wholesAtOnce)*partsAtOnce*hashesAtOnce*8) / decideEvery.Seconds()
}

// TableMessage returns a message of a node about its table: a change (parts is 0), or a part of the whole table.
func TableMessage(boot string, number, part, parts uint64, came, left []uint64) []byte {
	n := news{number: number, part: part, parts: parts, came: came, left: left}
	m := message{kind: kindTable, from: boot, body: n.append(nil)}
	return m.append(nil)
}

// NamesMessage returns a message of a node to its backup.
func NamesMessage(boot string, number uint64, app string, came, left []string) []byte {
	r := roster{N: number, Came: map[string][]string{app: came}, Left: map[string][]string{app: left}}
	m := message{kind: kindRoster, from: boot, body: text(r)}
	return m.append(nil)
}

// BeatMessage returns a heartbeat as a node under load sends it.
func BeatMessage(boot string, sessions int, up time.Duration) []byte {
	n := uint64(up / beatEvery)
	store := int64(1)
	b := beat{
		Node: boot, Version: "1.0.0", UpMS: up.Milliseconds(), N: n, Sessions: sessions, NowMS: time.Now().UnixMilli(), Claims: true, Backup: boot, Roster: n,
		Table: n, StoreMS: &store, Work: Work{Commits: 100 * n, Copies: 200 * n},
	}
	m := message{kind: kindBeat, from: boot, body: text(b)}
	return m.append(nil)
}
