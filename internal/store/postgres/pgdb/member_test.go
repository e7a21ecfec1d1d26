package pgdb_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

func TestALostNodeStaysAMemberUntilItIsForgotten(t *testing.T) {
	url, schema := pgtest.URL(t), pgtest.Schema(t)
	node := func(name, boot string, now func() time.Time) *pgdb.Leases {
		ls, err := pgdb.OpenLeases(t.Context(), pgdb.LeaseConfig{URL: url, Schema: schema, Node: name, Boot: boot, Now: now})
		ok(t, err)
		return ls
	}
	members := func(ls *pgdb.Leases) (lives, lost []string) {
		t.Helper()
		list, err := ls.Members(t.Context())
		ok(t, err)
		for _, m := range list {
			if m.Lives {
				lives = append(lives, m.Name)
			} else {
				lost = append(lost, m.Name)
			}
		}
		return lives, lost
	}
	first := node("first", "b1", nil)
	defer first.Close()
	node("ended", "b2", nil).Close()
	second := node("second", "b3", nil)
	defer second.Close()
	if lives, lost := members(second); !slices.Equal(lives, []string{"first", "second"}) || lost != nil {
		t.Errorf("%v live, %v are lost", lives, lost)
	}
	if err := second.Forget(t.Context(), "first"); !errors.Is(err, pgdb.ErrNodeLives) {
		t.Errorf("a node that lives was forgotten: %v", err)
	}
	if err := second.Forget(t.Context(), "stranger"); !errors.Is(err, pgdb.ErrUnknownNode) {
		t.Errorf("a node that nobody knows was forgotten: %v", err)
	}
	// An hour later all leases have run out, by the clock of a third node.
	third := node("third", "b4", func() time.Time { return time.Now().Add(time.Hour) })
	defer third.Close()
	list, err := third.Members(t.Context())
	ok(t, err)
	if i := slices.IndexFunc(list, func(m pgdb.Member) bool { return m.Name == "first" }); i < 0 {
		t.Errorf("the lost node is not listed: %+v", list)
	} else if m := list[i]; m.Lives || m.Boot != "b1" || m.Silent < 50*time.Minute {
		t.Errorf("the lost node is %+v", m)
	}
	ok(t, third.Forget(t.Context(), "first"))
	if _, lost := members(third); slices.Contains(lost, "first") {
		t.Errorf("%v are lost after one was forgotten", lost)
	}
}
