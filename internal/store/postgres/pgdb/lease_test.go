package pgdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// often makes nodes look often.
var often = terms{ttl: leaseFor, margin: leaseMargin, renew: 20 * time.Millisecond, look: 5 * time.Millisecond}

// nodes opens leases of one table as several nodes.
type nodes struct {
	*testing.T
	cfg LeaseConfig
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	return &nodes{T: t, cfg: LeaseConfig{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}}
}

func (n *nodes) open(name string, t terms) *Leases {
	n.Helper()
	cfg := n.cfg
	cfg.Node = name
	ls, err := openLeases(n.Context(), cfg, t)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(ls.Close)
	return ls
}

// owning is one node's use of a lease: each acquired lease is sent to gained, and held until it is lost.
type owning struct {
	gained  chan *Lease
	ended   chan error
	release func()
}

func own(ls *Leases, name string) *owning {
	o := &owning{gained: make(chan *Lease, 100), ended: make(chan error, 100)}
	o.release = ls.Own(name, func(ctx context.Context, l *Lease) {
		o.gained <- l
		<-ctx.Done()
		o.ended <- context.Cause(ctx)
	})
	return o
}

func TestALeaseIsOneNodesAtATimeAndItsEpochGrows(t *testing.T) {
	n := newNodes(t)
	var owners [3]*owning
	var nodes [3]*Leases
	for i := range owners {
		nodes[i] = n.open(fmt.Sprint("n", i), often)
		owners[i] = own(nodes[i], "sweep/1")
	}
	epoch := int64(0)
	for range 20 {
		var l *Lease
		who := 0
		select {
		case l = <-owners[0].gained:
		case l = <-owners[1].gained:
			who = 1
		case l = <-owners[2].gained:
			who = 2
		}
		if l.Epoch() <= epoch || !l.Held() {
			t.Fatalf("epoch %d after %d, held: %t", l.Epoch(), epoch, l.Held())
		}
		for _, o := range owners {
			select {
			case <-o.gained:
				t.Fatal("two have it")
			default:
			}
		}
		list, err := nodes[0].List(t.Context())
		if err != nil || len(list) != 4 || list[3].Name != "sweep/1" || list[3].Node != nodes[who].Node() || list[3].For > leaseFor {
			t.Fatalf("%+v, %v", list, err)
		}
		epoch = l.Epoch()
		owners[who].release()
		if err := <-owners[who].ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		owners[who] = own(nodes[who], "sweep/1")
	}
}

func TestAnOwnerThatStopsRenewingIsFollowedAndWritesNothing(t *testing.T) {
	n := newNodes(t)
	clock := testclock.At(time.Now())
	n.cfg.Now = clock.Now
	a := n.open("a", terms{ttl: leaseFor, margin: leaseMargin, renew: time.Hour, look: 5 * time.Millisecond}) // renews only once an hour, as if the process hung
	b := n.open("b", often)
	la := <-own(a, "campaigns/shop").gained
	db, err := Open(t.Context(), Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: fstest.MapFS{"1.sql": {Data: []byte("CREATE TABLE written (epoch bigint)")}}, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(l *Lease, checked func()) error {
		return db.Do(t.Context(), "write", func(ctx context.Context, tx pgx.Tx) error {
			if err := l.Check(ctx, tx); err != nil {
				return err
			}
			checked()
			_, err := tx.Exec(ctx, "INSERT INTO written VALUES ($1)", l.Epoch())
			return err
		})
	}
	if err := write(la, func() {}); err != nil {
		t.Fatal(err)
	}
	// A transaction that has checked the lease may commit: however late the commit is, the other node must wait for it.
	err = write(la, func() {
		clock.Advance(leaseFor + time.Second)
		if got, err := b.take(t.Context(), []string{"campaigns/shop"}); err != nil || len(got) != 0 {
			t.Errorf("it was taken over in the middle of a transaction: %v, %v", got, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	lb := <-own(b, "campaigns/shop").gained
	if lb.Epoch() <= la.Epoch() {
		t.Errorf("epoch %d after %d", lb.Epoch(), la.Epoch())
	}
	if err := write(la, func() {}); !errors.Is(err, ErrLost) {
		t.Errorf("the former owner writes: %v", err)
	}
	if err := write(lb, func() {}); err != nil {
		t.Error(err)
	}
	var first, second int
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE epoch = $1), count(*) FILTER (WHERE epoch = $2) FROM written", la.Epoch(), lb.Epoch()).Scan(&first, &second); err != nil || first != 2 || second != 1 {
		t.Errorf("%d and %d rows, %v", first, second, err)
	}
}

func TestRenewingDoesNotWaitForTheOwnersTransactions(t *testing.T) {
	n := newNodes(t)
	a := n.open("a", often)
	l := <-own(a, "x").gained
	err := a.db.Do(t.Context(), "write", func(ctx context.Context, tx pgx.Tx) error {
		if err := l.Check(ctx, tx); err != nil {
			return err
		}
		for before := l.ends.Load(); l.ends.Load() == before; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnOwnerStopsBeforeOthersMayBegin(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	n := &nodes{T: t, cfg: LeaseConfig{URL: s.URL(), Schema: "lease"}}
	short := terms{ttl: 2 * time.Second, margin: time.Second, renew: 200 * time.Millisecond, look: 20 * time.Millisecond}
	a := n.open("a", short)
	o := own(a, "x")
	l := <-o.gained
	s.Stop() // nothing can be renewed
	err := <-o.ended
	if !errors.Is(err, ErrLost) || l.Held() {
		t.Errorf("ended with %v, held: %t", err, l.Held())
	}
	s.Continue()
	if l2 := <-o.gained; l2.Epoch() <= l.Epoch() { // once the server resumes, the node acquires the lease again
		t.Errorf("epoch %d after %d", l2.Epoch(), l.Epoch())
	}
}

func TestLeasesOfEndedProcessAreFreeAtOnce(t *testing.T) {
	n := newNodes(t)
	clock := testclock.At(time.Now()) // which stands still
	n.cfg.Now, n.cfg.Boot = clock.Now, "killed"
	first := n.open("a", terms{ttl: leaseFor, margin: leaseMargin, renew: time.Hour, look: 5 * time.Millisecond})
	l := <-own(first, "x").gained
	n.cfg.Boot, n.cfg.Former = "its successor", "killed"
	second := n.open("a", often)
	if l2 := <-own(second, "x").gained; l2.Epoch() <= l.Epoch() {
		t.Errorf("epoch %d after %d", l2.Epoch(), l.Epoch())
	}
}

func TestTheSecondNodeOfANameIsRefusedWhileTheFirstLives(t *testing.T) {
	n := newNodes(t)
	clock := testclock.At(time.Now())
	n.cfg.Now, n.cfg.Node = clock.Now, "a"
	told := make(chan error, 1)
	n.cfg.Fatal = func(err error) { told <- err }
	first := n.open("a", often)
	// pass advances the clock until an opening node has succeeded or failed, and returns by how much. It never advances past a live node's
	// lease, even on a busy machine.
	pass := func(opened chan struct{}, alive *Leases) time.Duration {
		start, renewed := clock.Now(), int64(0)
		for {
			select {
			case <-opened:
				return clock.Now().Sub(start)
			case <-time.After(time.Millisecond):
			}
			if alive != nil {
				alive.mu.Lock()
				ends := alive.own[alive.nodeName()].lease.ends.Load()
				alive.mu.Unlock()
				if ends == renewed {
					continue
				}
				renewed = ends
			}
			clock.Advance(50 * time.Millisecond)
		}
	}
	open := func(alive *Leases) (ls *Leases, took time.Duration, err error) {
		opened := make(chan struct{})
		go func() {
			defer close(opened)
			ls, err = openLeases(t.Context(), n.cfg, often)
		}()
		took = pass(opened, alive)
		return ls, took, err
	}
	if _, _, err := open(first); !errors.Is(err, ErrNodeTaken) { // it renews, so it lives
		t.Fatalf("got %v", err)
	}
	first.Close()
	second := n.open("a", terms{ttl: leaseFor, margin: leaseMargin, renew: time.Hour, look: 5 * time.Millisecond})
	// The node counts as killed: its lease must end first.
	third, took, err := open(nil)
	if err != nil || took < leaseFor {
		t.Fatalf("after %s: %v", took, err)
	}
	defer third.Close()
	// The node that was taken for dead resumes, and learns that its lease is lost.
	second.mu.Lock()
	second.own[second.nodeName()].lease.ends.Store(0)
	second.mu.Unlock()
	second.look()
	if err := <-told; !errors.Is(err, ErrNodeTaken) {
		t.Errorf("got %v", err)
	}
}

func TestAnOwnerThatReturnsLetsOthersTry(t *testing.T) {
	n := newNodes(t)
	a, b := n.open("a", often), n.open("b", often)
	tried := make(chan struct{}, 1)
	release := a.Own("x", func(context.Context, *Lease) {
		select {
		case tried <- struct{}{}:
		default:
		}
	})
	<-tried
	ob := own(b, "x")
	<-ob.gained
	release()
}

func TestADrainedNodeGivesUpAndTakesNothing(t *testing.T) {
	n := newNodes(t)
	a, b := n.open("a", often), n.open("b", often)
	oa := own(a, "x")
	<-oa.gained
	ob := own(b, "x")
	a.Drain(t.Context())
	<-ob.gained
	late := own(a, "y")
	<-own(b, "y").gained
	select {
	case <-late.gained:
		t.Error("a drained node takes a lease")
	default:
	}
	cfg := n.cfg
	cfg.Node = "a"
	if list, err := b.List(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("%+v, %v; want both nodes' names and both leases", list, err)
	}
}

// TestAProcessThatWasStoppedPastItsLeaseWritesNothing suspends a process that writes under a lease, until another one
// has taken over, and resumes it.
func TestAProcessThatWasStoppedPastItsLeaseWritesNothing(t *testing.T) {
	short := terms{ttl: 4 * time.Second, margin: time.Second, renew: 200 * time.Millisecond, look: 20 * time.Millisecond}
	files := fstest.MapFS{"1.sql": {Data: []byte("CREATE TABLE written (epoch bigint, n serial)")}}
	if url := os.Getenv("GODWIT_LEASE_URL"); url != "" {
		writer(t, url, files, short)
		return
	}
	s := pgtest.Start(t, pgtest.Options{})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessThatWasStoppedPastItsLeaseWritesNothing$", "-test.v")
	cmd.Env = append(os.Environ(), "GODWIT_LEASE_URL="+s.URL())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	wait := func(what string) (rest string) {
		for lines.Scan() {
			if _, rest, found := strings.Cut(lines.Text(), what); found {
				return rest
			}
		}
		t.Fatalf("the process did not say %q", what)
		return ""
	}
	wait("writing")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n := &nodes{T: t, cfg: LeaseConfig{URL: s.URL(), Schema: "lease"}}
	l := <-own(n.open("b", short), "x").gained
	db, err := Open(t.Context(), Config{URL: s.URL(), Schema: "written", Migrations: files})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	count := func() (former int) {
		if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM written WHERE epoch < $1", l.Epoch()).Scan(&former); err != nil {
			t.Fatal(err)
		}
		return former
	}
	before := count()
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	said := wait("held ")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process: %v", err)
	}
	if after := count(); before == 0 || after != before || said != "false" {
		t.Errorf("%d rows before the other took over and %d afterwards; it says it holds the lease: %s", before, after, said)
	}
}

// writer writes as fast as it can while it holds the lease.
func writer(t *testing.T, url string, files fstest.MapFS, short terms) {
	ls, err := openLeases(t.Context(), LeaseConfig{URL: url, Schema: "lease", Node: "a"}, short)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.Close()
	db, err := Open(t.Context(), Config{URL: url, Schema: "written", Migrations: files})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done := make(chan struct{})
	release := ls.Own("x", func(context.Context, *Lease) {})
	release()
	defer ls.Own("x", func(_ context.Context, l *Lease) {
		defer close(done)
		for i := 0; ; i++ {
			err := db.Do(t.Context(), "write", func(ctx context.Context, tx pgx.Tx) error {
				if err := l.Check(ctx, tx); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "INSERT INTO written (epoch) VALUES ($1)", l.Epoch())
				return err
			})
			if err != nil { // the process was stopped in the middle of a write, or before one
				fmt.Println("ended", err, "held", l.Held())
				return
			}
			if i == 0 {
				fmt.Println("writing")
			}
		}
	})()
	<-done
}

func TestNodesThatLiveAreKnownByTheirBoots(t *testing.T) {
	n := newNodes(t)
	n.cfg.Boot = "first"
	a := n.open("a", often)
	n.cfg.Boot = "second"
	b := n.open("b", often)
	<-own(b, "sweep/1").gained // is no node
	if alive, err := a.Alive(t.Context()); err != nil || !slices.Equal(alive, []string{"first", "second"}) {
		t.Errorf("%q, %v", alive, err)
	}
	a.Close()
	if alive, err := b.Alive(t.Context()); err != nil || !slices.Equal(alive, []string{"second"}) {
		t.Errorf("%q, %v after the first has ended", alive, err)
	}
}
