package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// entry is a node in a node's list of nodes.
type entry struct{ Name, State, Why string }

// entries returns the entries with a name in a node's list.
func entries(t *testing.T, at *blackbox.Server, name string) ([]entry, error) {
	t.Helper()
	answer, err := at.API().Do(t.Context(), http.MethodGet, "/v1/cluster", nil)
	if err != nil {
		return nil, err
	}
	var v struct{ Nodes []entry }
	err = answer.JSON(&v)
	return slices.DeleteFunc(v.Nodes, func(e entry) bool { return e.Name != name }), err
}

func states(t *testing.T, at *blackbox.Server, name string) (list []string, err error) {
	t.Helper()
	found, err := entries(t, at, name)
	for _, e := range found {
		list = append(list, e.State)
	}
	return list, err
}

// missing returns the reason why a node reports another one as missing; empty: it does not.
func missing(t *testing.T, at *blackbox.Server, name string) (why string, err error) {
	t.Helper()
	found, err := entries(t, at, name)
	for _, e := range found {
		if e.State == "missing" {
			why = e.Why
		}
	}
	return why, err
}

// listed waits until a node reports another one as missing for a reason.
func listed(t *testing.T, at *blackbox.Server, name, reason string) {
	t.Helper()
	blackbox.Eventually(t, name+" is missing: "+reason, func() error {
		why, err := missing(t, at, name)
		if err == nil && !strings.Contains(why, reason) {
			err = fmt.Errorf("why it is missing: %q", why)
		}
		return err
	})
}

func TestALostNodeIsListedUntilItIsForgottenAndOneThatEndsIsNot(t *testing.T) {
	blackbox.Long(t)
	t.Parallel()
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 4, Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	watcher := c.Nodes[0]
	c.Cut(0, 3)
	listed(t, watcher, Name(3), "it lives, since it renews its lease")
	if code := c.Nodes[1].Stop(); code != 0 {
		t.Errorf("a node that was stopped exited with %d", code)
	}
	c.Nodes[2].Kill()
	listed(t, watcher, Name(2), "it was killed, or its machine is lost")
	if why, err := missing(t, watcher, Name(1)); err != nil || why != "" {
		t.Errorf("the node that was stopped is missing: %q, %v", why, err)
	}
	if n, err := watcher.API().Metric(t.Context(), `godwit_cluster_nodes{state="missing"`); err != nil || n != 2 {
		t.Errorf("%v nodes are missing, %v; want the one that was killed and the one that is cut off", n, err)
	}
	forget := func(name string) (int, string) {
		answer, err := watcher.API().Do(t.Context(), http.MethodDelete, "/v1/cluster/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status, string(answer.Body)
	}
	if status, body := forget(Name(3)); status != http.StatusBadRequest || !strings.Contains(body, "lives") {
		t.Errorf("forgetting a node that lives is answered with %d: %s", status, body)
	}
	if status, body := forget("nobody"); status != http.StatusNotFound {
		t.Errorf("forgetting a node that there never was is answered with %d: %s", status, body)
	}
	// Another node also counted the lost node as missing, and learns that it was forgotten.
	listed(t, c.Nodes[3], Name(2), "it was killed, or its machine is lost")
	if status, body := forget(Name(2)); status != http.StatusNoContent {
		t.Errorf("forgetting a lost node is answered with %d: %s", status, body)
	}
	for _, n := range []*blackbox.Server{watcher, c.Nodes[3]} {
		blackbox.Eventually(t, "it is not listed any more", func() error {
			why, err := missing(t, n, Name(2))
			if err == nil && why != "" {
				err = errors.New(why)
			}
			return err
		})
	}
	// A forgotten node that returns, and one that restarts, are normal nodes, and each is listed once.
	for _, i := range []int{1, 2} {
		if err := c.Nodes[i].Launch(); err != nil {
			t.Fatal(err)
		}
		blackbox.Eventually(t, Name(i)+" is listed once, as alive", func() error {
			states, err := states(t, watcher, Name(i))
			if err == nil && !slices.Equal(states, []string{"alive"}) {
				err = fmt.Errorf("it is %v", states)
			}
			return err
		})
	}
}
