package redisstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// slots is the number of slots of a cluster.
const slots = 16384

// topology lists which master has which slots.
type topology struct {
	masters []string // addresses, sorted
	ranges  []slotRange
}

// slotRange is a range of slots of one master.
type slotRange struct {
	from, to uint16
	master   string
}

// topology reads the cluster's topology. A single server has all slots.
func (l *link) topology(ctx context.Context) (*topology, error) {
	if !l.cluster {
		addr := l.opts.InitAddress[0]
		return &topology{masters: []string{addr}, ranges: []slotRange{{0, slots - 1, addr}}}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no server of the cluster answered in %s", callWithin))
	defer cancel()
	var failed error
	for addr, c := range l.main.Nodes() {
		one, done := context.WithTimeout(ctx, time.Second) // a node that hangs leaves time for the others
		t, err := readTopology(c.Do(one, c.B().ClusterSlots().Build()), addr)
		done()
		if err == nil {
			return t, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("ask which Redis has which slots: %w", errors.Join(context.Cause(ctx), failed))
}

// readTopology parses the answer of the server at asked to CLUSTER SLOTS: ranges, each with its master before its replicas.
func readTopology(res rueidis.RedisResult, asked string) (*topology, error) {
	list, err := res.ToArray()
	if err != nil {
		return nil, err
	}
	t := &topology{}
	for i := range list {
		r, err := readRange(&list[i], asked)
		if err != nil {
			return nil, err
		}
		t.ranges = append(t.ranges, r)
		t.masters = append(t.masters, r.master)
	}
	slices.SortFunc(t.ranges, func(a, b slotRange) int { return int(a.from) - int(b.from) })
	slices.Sort(t.masters)
	t.masters = slices.Compact(t.masters)
	return t, nil
}

func readRange(m *rueidis.RedisMessage, asked string) (r slotRange, err error) {
	row, err := m.ToArray()
	if err != nil || len(row) < 3 {
		return r, errors.Join(err, errors.New("a range of slots has no master"))
	}
	from, err1 := row[0].AsInt64()
	to, err2 := row[1].AsInt64()
	node, err3 := row[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil || len(node) < 2 || from < 0 || from > to || to >= slots {
		return r, errors.Join(err, errors.New("a range of slots cannot be read"))
	}
	port, err := node[1].AsInt64()
	if err != nil {
		return r, err
	}
	host, err := node[0].ToString()
	if err != nil || host == "" || host == "?" { // the server does not know the name by which clients reach it
		host, _, _ = net.SplitHostPort(asked)
	}
	return slotRange{uint16(from), uint16(to), net.JoinHostPort(host, strconv.FormatInt(port, 10))}, nil
}

// of returns the master of a slot; empty: the slot has none.
func (t *topology) of(slot uint16) string {
	i, ok := slices.BinarySearchFunc(t.ranges, slot, func(r slotRange, slot uint16) int {
		switch {
		case r.to < slot:
			return -1
		case r.from > slot:
			return 1
		}
		return 0
	})
	if !ok {
		return ""
	}
	return t.ranges[i].master
}

// unowned returns how many slots have no master.
func (t *topology) unowned() int {
	n := slots
	for _, r := range t.ranges {
		n -= int(r.to-r.from) + 1
	}
	return n
}

// gained returns the masters that have slots which they did not have before.
func (t *topology) gained(before *topology) (masters []string) {
	for _, r := range t.ranges {
		for slot := int(r.from); slot <= int(r.to); slot++ {
			if before.of(uint16(slot)) != r.master {
				masters = append(masters, r.master)
				break
			}
		}
	}
	slices.Sort(masters)
	return slices.Compact(masters)
}

// slotOf returns the slot of a key.
func (l *link) slotOf(key string) uint16 {
	if !l.cluster {
		return 0
	}
	c := l.main.B().Exists().Key(key).Build()
	return c.Slot()
}
