package filterdb_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqltx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse takes filters apart that are patterns already, with the queue before a slash.
func parse(filter string) (queue string, patterns []string) {
	queue, pattern, shared := strings.Cut(filter, "/")
	if !shared {
		return "", []string{filter}
	}
	return queue, []string{pattern}
}

// erased notes which mailboxes were erased.
type erased struct {
	mu   sync.Mutex
	list []string
	err  error // the next ones fail
}

func (e *erased) Erase(_ context.Context, _, recipient string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.list = append(e.list, recipient)
	return mailbox.ErrNotFound // as for a device for which nothing has waited yet
}

func (e *erased) fails(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *erased) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// node is a node with a store of filters; its clock is set by the test.
type node struct {
	*filterdb.Store
	t       *testing.T
	stores  *store.Stores
	erased  erased
	fault   fault
	several bool
	mu      sync.Mutex
	at      time.Time
}

// fault is a database that fails or waits as the test says.
type fault struct {
	sqltx.Database
	mu    sync.Mutex
	err   error
	begun chan struct{} // gets one for each change that waits
	wait  chan struct{} // changes wait until it is closed; nil: none does
}

func (f *fault) of(db sqltx.Database) *fault {
	f.Database = db
	return f
}

func (f *fault) fails(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// holds makes changes wait from now on. begun tells when the first does.
func (f *fault) holds() (begun <-chan struct{}, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun, f.wait = make(chan struct{}, 100), make(chan struct{})
	return f.begun, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.wait)
		f.wait = nil
	}
}

func (f *fault) Change(ctx context.Context, op string, do func(context.Context, sqltx.Tx) error) error {
	f.mu.Lock()
	err, wait := f.err, f.wait
	f.mu.Unlock()
	if wait != nil {
		f.begun <- struct{}{}
		<-wait
	}
	if err != nil {
		return err
	}
	return f.Database.Change(ctx, op, do)
}

func (n *node) now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

func (n *node) pass(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = n.at.Add(d)
}

func tables() []store.Tables {
	lite, pg := filterdb.Migrations()
	return []store.Tables{{Module: "mqtt", SQLite: lite, Postgres: pg}}
}

// start starts a node on a file, or on a database that nodes share.
func start(t *testing.T, cfg store.Config) *node {
	t.Helper()
	n := &node{t: t, at: time.UnixMilli(1_800_000_000_000), several: cfg.Postgres != ""}
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	cfg.MinFree, cfg.Tables = 1<<20, tables()
	var err error
	if n.stores, err = store.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.stores.Close() })
	n.open()
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// open reads what is stored, as a start of the server does.
func (n *node) open() {
	n.t.Helper()
	var err error
	n.Store, err = filterdb.Open(n.t.Context(), filterdb.Config{
		DB: n.fault.of(n.stores.Database("mqtt")), Mailbox: &n.erased, Parse: parse, Now: n.now, Several: n.several, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// again closes the store and reads it again.
func (n *node) again() {
	n.t.Helper()
	_ = n.Close()
	n.open()
}

func (n *node) keep(d filterdb.Device, filter string, lasts time.Duration) {
	n.t.Helper()
	done := make(chan error, 1)
	n.Keep(d, []string{filter}, n.now().Add(lasts), func(err error) { done <- err })
	if err := <-done; err != nil {
		n.t.Fatal(err)
	}
}

// settle returns once earlier changes are stored and the mailboxes of forgotten devices are erased.
func (n *node) settle() {
	n.t.Helper()
	done := make(chan error)
	for stored := 0; stored < 2; { // the first may be of the same batch, of which devices are told before mailboxes are erased
		n.Keep(filterdb.Device{App: "other", Recipient: "r", Name: "d"}, []string{"x"}, n.now().Add(time.Hour), func(err error) { go func() { done <- err }() })
		if err := <-done; err == nil {
			stored++
			continue
		}
		time.Sleep(time.Millisecond) // too much waits
	}
}

// want checks to which devices a message goes.
func (n *node) want(topic string, devices ...filterdb.Device) {
	n.t.Helper()
	want := []string{}
	for _, d := range devices {
		want = append(want, d.Mailbox())
	}
	slices.Sort(want)
	got, _, _ := n.Match("demo", topic, func(string) bool { return false })
	if !slices.Equal(got, want) {
		n.t.Errorf("%s goes to %v, want %v", topic, got, want)
	}
}

func device(name string) filterdb.Device {
	return filterdb.Device{App: "demo", Recipient: "unit", Name: name}
}

func TestFiltersAreThereAfterARestart(t *testing.T) {
	n := start(t, store.Config{})
	a, b := device("a"), device("b")
	n.keep(a, "jobs.>", time.Hour)
	n.keep(a, "news.*", time.Hour)
	n.keep(b, "jobs.paint", time.Hour)
	for range 2 {
		n.want("jobs.paint", a, b)
		n.want("jobs.clean", a)
		n.want("news.oslo", a)
		n.want("news.oslo.today")
		if got, _, _ := n.Match("another", "jobs.paint", nil); len(got) > 0 {
			t.Errorf("a message of another app goes to %v", got)
		}
		n.again()
	}
	n.Drop(a, "jobs.>")
	n.want("jobs.paint", b) // at once
	n.settle()
	n.again()
	n.want("jobs.paint", b)
	n.want("news.oslo", a)
	if list := n.Filters(a); !slices.Equal(list, []string{"news.*"}) {
		t.Errorf("%v are left", list)
	}
	if list := n.erased.all(); len(list) > 0 {
		t.Errorf("the mailboxes %v were erased although filters are left", list)
	}
}

func TestFiltersOfADeviceThatStaysAwayExpire(t *testing.T) {
	n := start(t, store.Config{})
	short, long := device("short"), device("long")
	n.keep(short, "jobs.>", time.Minute)
	n.keep(short, "news.>", time.Minute)
	n.keep(long, "jobs.>", time.Hour)
	n.pass(time.Minute - time.Millisecond)
	n.Sweep()
	n.settle()
	n.want("jobs.1", short, long)
	n.pass(time.Millisecond)
	n.want("jobs.1", long) // before it is swept, too
	n.want("news.1")
	if list := n.Filters(short); len(list) > 0 {
		t.Errorf("filters whose time is over are restored: %v", list)
	}
	if list := n.erased.all(); len(list) > 0 {
		t.Errorf("erased before the sweep: %v", list)
	}
	n.Sweep()
	n.settle()
	if list := n.erased.all(); !slices.Equal(list, []string{short.Mailbox()}) {
		t.Errorf("erased %v, want what waits for the device whose time is over", list)
	}
	n.pass(-time.Minute) // whatever the clock says afterwards
	n.again()
	n.want("jobs.1", long)
	n.want("news.1")
}

func TestConnectedDeviceKeepsItsFilters(t *testing.T) {
	n := start(t, store.Config{})
	d := device("d")
	n.keep(d, "jobs.>", time.Minute)
	n.Extend(d, n.now().Add(time.Hour))
	n.settle()
	n.pass(30 * time.Minute)
	n.Sweep()
	n.settle()
	for range 2 {
		n.want("jobs.1", d)
		n.again()
	}
	n.Extend(d, n.now().Add(time.Second)) // it has left
	n.settle()
	n.pass(time.Second)
	n.want("jobs.1")
	n.Extend(device("nobody"), n.now().Add(time.Hour)) // a device without filters gets none
	n.settle()
	n.want("jobs.1")
}

func TestForgottenDeviceLosesAllItsFilters(t *testing.T) {
	n := start(t, store.Config{})
	a, b := device("a"), device("b")
	n.keep(a, "jobs.>", time.Hour)
	n.keep(a, "news.>", time.Hour)
	n.keep(b, "jobs.>", time.Hour)
	n.Forget(a)
	n.keep(a, "jobs.1", time.Hour) // of its next session
	for range 2 {
		n.want("jobs.1", a, b)
		n.want("jobs.2", b)
		n.want("news.1")
		n.again()
	}
	if list := n.erased.all(); !slices.Equal(list, []string{a.Mailbox()}) {
		t.Errorf("erased %v", list)
	}
	if err := n.EraseApp(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.want("jobs.1")
		n.again()
	}
}

func TestMembersOfAQueueTakeTurns(t *testing.T) {
	n := start(t, store.Config{})
	a, b, alone := device("a"), device("b"), device("alone")
	n.keep(a, "q/jobs.>", time.Hour)
	n.keep(b, "q/jobs.>", time.Hour)
	n.keep(alone, "jobs.>", time.Hour)
	times := make(map[string]int)
	for range 10 {
		boxes, _, _ := n.Match("demo", "jobs.1", func(string) bool { return false })
		for _, box := range boxes {
			times[box]++
		}
	}
	if times[a.Mailbox()] != 5 || times[b.Mailbox()] != 5 || times[alone.Mailbox()] != 10 {
		t.Errorf("of ten messages the devices got %v", times)
	}
	for range 4 { // the one that is here, whoever's turn it is
		got, _, _ := n.Match("demo", "jobs.1", func(box string) bool { return box == b.Mailbox() })
		if slices.Contains(got, a.Mailbox()) || !slices.Contains(got, b.Mailbox()) || len(got) != 2 {
			t.Errorf("a message goes to %v", got)
		}
	}
	n.keep(a, "jobs.1", time.Hour) // twice the same message is once
	got, _, _ := n.Match("demo", "jobs.1", func(box string) bool { return box == a.Mailbox() })
	if slices.Sort(got); len(got) != 2 || len(slices.Compact(got)) != 2 {
		t.Errorf("a message goes to %v", got)
	}
}

func TestMailboxesOfDevicesAreDistinct(t *testing.T) {
	seen := make(map[string]filterdb.Device)
	for _, d := range []filterdb.Device{
		{Recipient: "a", Name: "bc"}, {Recipient: "ab", Name: "c"}, {Recipient: "abc"}, {Recipient: strings.Repeat("a", 200), Name: "x"}, {Recipient: strings.Repeat("a", 201), Name: "x"},
	} {
		box := d.Mailbox()
		if other, is := seen[box]; is {
			t.Errorf("%+v and %+v share %s", d, other, box)
		}
		if seen[box] = d; !strings.HasPrefix(box, "mqtt:") || len(box) > 100 {
			t.Errorf("%+v has %s", d, box)
		}
	}
}

func TestOtherNodesHaveAFilterOnceItIsStored(t *testing.T) {
	url := pgtest.Database(t)
	one, two := start(t, store.Config{Postgres: url, Node: "n1", Boot: "bootaaaa"}), start(t, store.Config{Postgres: url, Node: "n2", Boot: "bootbbbb"})
	fresh := func(n *node) {
		t.Helper()
		if err := n.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, b := device("a"), device("b")
	one.keep(a, "jobs.>", time.Hour)
	fresh(two)
	two.want("jobs.1", a)
	two.keep(b, "jobs.>", time.Hour)
	one.keep(a, "news.>", time.Hour) // its revision skips that of the other node
	fresh(one)
	one.want("jobs.1", a, b)
	two.Forget(a)
	two.settle()
	fresh(one)
	one.want("jobs.1", b)
	one.want("news.1")
}

func TestFilterThatCannotBeStoredIsRefused(t *testing.T) {
	n := start(t, store.Config{})
	n.keep(device("a"), "jobs.>", time.Hour)
	if err := n.stores.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	n.Keep(device("b"), []string{"jobs.>"}, n.now().Add(time.Hour), func(err error) { done <- err })
	if err := <-done; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a filter that is not on disk is granted: %v", err)
	}
	n.want("jobs.1", device("a"))
}
