package stages

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"godwit.dev/godwit/internal/engine/stage"
)

func TestStages(t *testing.T) {
	for _, c := range []struct {
		stack, want string // the innermost function first
	}{
		{"syscall.Syscall6 internal/engine/reactor.sysWrite internal/engine/reactor.(*Conn).Write internal/notify/session.(*Session).send internal/notify/session.(*Hub).Route", Write},
		{"runtime.mapaccess2 internal/notify/session.(*Hub).Route internal/notify/mailbox.(*Mailbox).Committed", Route},
		{"runtime.mallocgc internal/store/sqlite/mailboxdb.(*tellers).split", Tell},
		{"modernc.org/sqlite/lib.sqlite3VdbeExec internal/store/sqlite/mailboxdb.(*settleOp).Apply internal/store/sqlite/sqlitedb.(*writer).apply", Settle},
		{"modernc.org/sqlite/lib.sqlite3VdbeExec internal/store/sqlite/sqlitedb.step internal/store/sqlite/sqlitedb.(*writer).commitTaken", Commit},
		{"runtime.gcAssistAlloc runtime.mallocgc internal/notify/session.(*Hub).Route", Garbage},
		{"runtime.epollwait runtime.netpoll runtime.findRunnable runtime.schedule runtime.park_m runtime.mcall", Switch},
		{"strings.Index example.org/somebody.Calls", Unknown},
		{"", Unknown},
	} {
		if got := classify(strings.Fields(c.stack)); got != c.want {
			t.Errorf("%s: the stage is %q, want %q", c.stack, got, c.want)
		}
	}
}

// recorded makes a profile as Go's runtime writes it.
type recorded struct {
	p     *profile.Profile
	known map[string]*profile.Location
}

func newRecorded() *recorded {
	return &recorded{
		known: make(map[string]*profile.Location),
		p:     &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}},
	}
}

// add adds a sample of so many hundredths of a second.
func (r *recorded) add(hundredths int64, stack string, labels ...string) {
	s := &profile.Sample{Value: []int64{hundredths, hundredths * 1e7}, Label: make(map[string][]string)}
	for _, f := range strings.Fields(stack) {
		l := r.known[f]
		if l == nil {
			fn := &profile.Function{ID: uint64(len(r.known) + 1), Name: f}
			l = &profile.Location{ID: fn.ID, Line: []profile.Line{{Function: fn}}}
			r.known[f] = l
			r.p.Function, r.p.Location = append(r.p.Function, fn), append(r.p.Location, l)
		}
		s.Location = append(s.Location, l)
	}
	for i := 0; i+1 < len(labels); i += 2 {
		s.Label[labels[i]] = []string{labels[i+1]}
	}
	r.p.Sample = append(r.p.Sample, s)
}

func (r *recorded) breakdown(t *testing.T) *Breakdown {
	t.Helper()
	var b bytes.Buffer
	if err := r.p.Write(&b); err != nil {
		t.Fatal(err)
	}
	down, err := Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return down
}

const (
	tellerRuns = module + "internal/store/sqlite/mailboxdb.(*tellers).start.func1"
	routing    = module + "internal/notify/session.(*Hub).Route " + tellerRuns
)

func (b *Breakdown) place(name string) Place {
	i := slices.IndexFunc(b.Places, func(p Place) bool { return p.Name == name })
	if i < 0 {
		return Place{}
	}
	return b.Places[i]
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestGoroutinesThatDivideTheWorkAreKeptApart(t *testing.T) {
	r := newRecorded()
	r.add(30, routing, stage.Name, "teller", stage.Number, "0", stage.In, tellerRuns)
	r.add(50, routing, stage.Name, "teller", stage.Number, "1", stage.In, tellerRuns)
	r.add(20, module+"internal/store/sqlite/mailboxdb.(*tellers).share "+module+"internal/store/sqlite/mailboxdb.(*Store).tellNext")
	b := r.breakdown(t)
	if p := b.place("teller"); p.Lanes != 2 || !near(p.CPU, 0.8) || !near(p.Most, 0.5) {
		t.Errorf("the tellers are %+v", p)
	}
	if p := b.place("lock of telling"); p.Lanes != 1 || !near(p.CPU, 0.2) {
		t.Errorf("the lock of telling is %+v", p)
	}
	if p := b.Busiest(); p.Name != "teller" {
		t.Errorf("the busiest is %+v", p)
	}
	// The busiest teller has 5 of 10 µs, also among eight. A single one has 8 µs.
	if p := b.Predict(10e-6, 16); p.Limit != "teller" || math.Round(p.Rate) != 200_000 {
		t.Errorf("16 cores: %+v", p)
	}
	if p := b.Predict(10e-6, 2); p.Limit != "teller" || math.Round(p.Rate) != 125_000 {
		t.Errorf("two cores have one teller: %+v", p)
	}
}

func TestPredictionIsTheLeastThatCoresAndPlacesAllow(t *testing.T) {
	r := newRecorded()
	for i := range 8 {
		r.add(10, routing, stage.Name, "teller", stage.Number, strconv.Itoa(i), stage.In, tellerRuns)
	}
	r.add(20, module+"internal/store/sqlite/mailboxdb.(*tellers).share "+module+"internal/store/sqlite/mailboxdb.(*Store).tellNext")
	b := r.breakdown(t)
	for _, want := range []Prediction{{2, 125_000, "teller"}, {4, 250_000, "teller"}, {8, 500_000, "lock of telling"}, {16, 500_000, "lock of telling"}} {
		got := b.Predict(10e-6, want.Cores)
		got.Rate = math.Round(got.Rate)
		if got != want && !(want.Cores == 8 && got.Rate == want.Rate) { // both allow as much there
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	r = newRecorded()
	r.add(10, "strings.Index example.org/somebody.Calls")
	if p := r.breakdown(t).Predict(10e-6, 4); p.Limit != "" || math.Round(p.Rate) != 400_000 {
		t.Errorf("where nothing is serial the cores decide: %+v", p)
	}
}

// A goroutine that a named one starts inherits its labels, but is another one.
func TestInheritedNamesDoNotCount(t *testing.T) {
	r := newRecorded()
	r.add(10, module+"internal/server/httpapi/direct.(*lots).work", stage.Name, "loop", stage.Number, "0", stage.In, module+"internal/engine/reactor.New.func1")
	if p := r.breakdown(t).Places; len(p) > 0 {
		t.Errorf("the places are %+v", p)
	}
	deep := strings.Repeat(module+"internal/notify/session.(*Hub).Route ", deepest)
	r.add(10, deep, stage.Name, "loop", stage.Number, "0", stage.In, module+"internal/engine/reactor.New.func1")
	if p := r.breakdown(t).place("loop"); !near(p.CPU, 0.1) {
		t.Errorf("of a stack that is cut off the loop has %+v", p)
	}
}

// A caller commits in the writer's place, with the same lock.
func TestCommitsOfCallersAreTheWriters(t *testing.T) {
	const commit = "modernc.org/sqlite/lib.x " + module + committing
	r := newRecorded()
	r.add(10, commit+" "+module+"internal/store/sqlite/sqlitedb.(*writer).run",
		stage.Name, "writer of mailbox.db", stage.Number, "0", stage.In, module+"internal/store/sqlite/sqlitedb.(*writer).run")
	r.add(10, commit+" "+module+"internal/store/sqlite/sqlitedb.(*DB).SubmitHere "+module+"internal/store/sqlite/mailboxdb.carryOut[...].func1")
	r.add(10, commit+" "+module+"internal/store/sqlite/objectdb.(*Store).Put")
	b := r.breakdown(t)
	if p := b.place("writer of mailbox.db"); !near(p.CPU, 0.2) || p.Lanes != 1 {
		t.Errorf("the mailboxes' writer is %+v", p)
	}
	if p := b.place("writer of objects.db"); !near(p.CPU, 0.1) {
		t.Errorf("the objects' writer is %+v", p)
	}
}

// testdata/fanout.pb.gz is a profile of a server with 16 threads and 8 tellers on two cores: `godwit bench serial fanout --for 8s`.
func TestRecordedProfile(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "fanout.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	sum, unknown := 0.0, 0.0
	for _, s := range b.Stages {
		sum += s.CPU
		if s.Stage == Unknown {
			unknown = s.CPU
		}
	}
	if !near(sum, b.Total) || b.Total == 0 {
		t.Errorf("the stages have %v s, all %v s", sum, b.Total)
	}
	if unknown > b.Total/20 {
		t.Errorf("%.0f %% of the time belongs to no known stage: have functions new names?", 100*unknown/b.Total)
	}
	for _, name := range []string{"teller", "loop", "writer of mailbox.db", "lock of telling"} {
		if b.place(name).CPU == 0 {
			t.Errorf("nothing is known of the %s", name)
		}
	}
	if p := b.place("teller"); p.Lanes != 8 {
		t.Errorf("there are %d tellers, want 8", p.Lanes)
	}
}

func TestProfileWithoutCPUTimeIsRefused(t *testing.T) {
	r := newRecorded()
	r.p.SampleType = r.p.SampleType[:1]
	var b bytes.Buffer
	if err := r.p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(&b); err == nil || !strings.Contains(err.Error(), "it has no CPU time") {
		t.Errorf("a profile without CPU time: %v", err)
	}
	if _, err := Parse(strings.NewReader("<html>")); err == nil {
		t.Error("a page was read as a profile")
	}
}
