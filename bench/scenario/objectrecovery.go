package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/stubs"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/store"
)

// ObjectRecovery measures the time until clients and server agree on all registrations again after the server was killed, with and without
// its stored state: ColdNotify's fourth experiment (the registrar's state) and its fifth (the matcher's).
type ObjectRecovery struct {
	Registering
	Clients []int
	Lost    string // LostAll, LostRegistrations or LostObjects
}

// The kinds of loss.
const (
	LostAll           = "all"           // the whole database of objects
	LostRegistrations = "registrations" // what ColdNotify's registrar holds: clients with their registrations and what they have acknowledged
	LostObjects       = "objects"       // what ColdNotify's matcher holds: objects with their versions
)

// lostTables are the tables that lose their rows.
var lostTables = map[string][]string{
	LostRegistrations: {"client", "progress"}, LostObjects: {"object"},
}

// Run measures recovery for each number of clients.
func (s *ObjectRecovery) Run(ctx context.Context) (*report.Result, error) {
	if s.Testbed.Running != nil {
		return nil, errRunning
	}
	r := s.begin("objects-recovery", "objects recovery: the server is killed, and loses its registrations or not",
		set("lost", s.Lost), set("clients", s.Clients), set("registrations each", s.Each), set("objects", max(s.Pool, s.Each)), set("transport", s.Transport))
	for _, clients := range s.Clients {
		err := s.runs(ctx, func(ctx context.Context, n int) error { return s.one(ctx, r, clients, n) })
		if err != nil {
			return nil, fmt.Errorf("%d clients: %w", clients, err)
		}
	}
	line := report.Series{Name: "registered again after losing all", Unit: "s", Over: "registrations"}
	for _, clients := range s.Clients {
		f := r.Figure(s.group(clients, s.lost()), again)
		line.Points = append(line.Points, [2]float64{float64(clients * s.Each), f.Median})
	}
	if len(line.Points) > 1 {
		r.Series = append(r.Series, line)
	}
	return r, nil
}

// again is the name of the main figure.
const again = "all registered again after"

func (s *ObjectRecovery) group(clients int, state string) string {
	return fmt.Sprintf("%s × %d, %s", report.Format(float64(clients)), s.Each, state)
}

// kept names the measurement after which nothing was lost.
const kept = "state kept"

// lost names the measurement after which s.Lost was lost.
func (s *ObjectRecovery) lost() string {
	if s.Lost == LostAll {
		return "state lost"
	}
	return s.Lost + " lost"
}

func (s *ObjectRecovery) one(ctx context.Context, r *report.Result, clients, run int) error {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	s.Testbed.Say("run %d: %d clients register", run+1, clients)
	if _, err := site.Connect(ctx, s.subscribers(clients), s.Workers); err != nil {
		return err
	}
	for _, state := range []string{s.lost(), kept} {
		s.Testbed.Say("run %d: %d clients, %s", run+1, clients, state)
		err := s.put(ctx, site)
		if err == nil {
			err = s.recover(ctx, r, site, clients, state, run)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", state, err)
		}
	}
	return nil
}

// recover cuts all connections, kills the server, starts it again and lets all clients reconnect at once.
func (s *ObjectRecovery) recover(ctx context.Context, r *report.Result, site *testbed.Site, clients int, state string, run int) error {
	before, err := site.Counts(ctx)
	if err != nil {
		return err
	}
	if _, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request { return worker.Request{Cut: true} }); err != nil {
		return err
	}
	server := site.Servers[0]
	var forget func(string) error
	if state != kept {
		forget = s.forget(ctx, server.Database())
	}
	begun := time.Now()
	if err := server.Restart(ctx, forget); err != nil {
		return err
	}
	started := time.Since(begun).Seconds()
	var profile *testbed.Profile
	if forget != nil {
		profile = s.profile(ctx, server, recoveryProfile(clients), run)
	}
	w := meter.Start(site.PIDs(), 10*time.Millisecond)
	begun = time.Now()
	replies, err := site.Each(ctx, func(*testbed.Subscribers) worker.Request {
		return worker.Request{Reconnect: &worker.Reconnect{}}
	})
	back, told := time.Since(begun), time.Duration(0)
	unversioned := s.Lost == LostObjects && forget != nil
	if err == nil && unversioned {
		err = awaitUnknown(ctx, site, before.Unknown+int64(clients*s.Each))
		told = time.Since(begun)
	}
	if err == nil && run == 0 {
		err = wait(ctx, afterwards)
	}
	all := w.Stop()
	if err != nil {
		return err
	}
	samples := meter.Until(all, back)
	var slowest float64
	for _, reply := range replies {
		slowest = max(slowest, reply.Seconds)
	}
	c, err := site.Counts(ctx)
	if err != nil {
		return err
	}
	group := s.group(clients, state)
	r.Add(group, again, "s", slowest)
	r.Add(group, "registrations", "/s", float64(clients*s.Each)/slowest)
	r.Add(group, "clients that disagree with the server", "", float64(int64(clients)-c.Agreed))
	if unversioned {
		r.Add(group, "told that the versions are unknown after", "s", told.Seconds())
		r.Add(group, "registrations not told so", "", float64(before.Unknown+int64(clients*s.Each)-c.Unknown))
	}
	r.Add(group, "server started in", "s", started)
	r.Add(group, "server CPU", "s", meter.CPU(samples))
	r.Add(group, "server memory, most", "MB", float64(meter.Peak(samples))/mb)
	if _, err := site.TakeLatency(ctx); err != nil {
		return err
	}
	tellShares(r, group, run, site.Shares())
	if run == 0 {
		s.course(r, clients, state, all)
	}
	return profile.Wait()
}

// awaitUnknown waits until so many signals have said that a version is unknown, but not longer than signals may take.
func awaitUnknown(ctx context.Context, site *testbed.Site, want int64) error {
	for until := time.Now().Add(stragglers); ; {
		c, err := site.Counts(ctx)
		if err != nil || c.Unknown >= want || time.Now().After(until) {
			return err
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// afterwards is how long the server is still observed, so that the plot shows it coming to rest.
const afterwards = 500 * time.Millisecond

// course adds the server's resource use over time, with registrations lost and kept in the same plot.
func (s *ObjectRecovery) course(r *report.Result, clients int, state string, samples []meter.Sample) {
	used, memory := cpuSeries(state, samples, 100*time.Millisecond), memorySeries(state, samples)
	for chart, line := range map[string]*report.Series{"server CPU": &used, "server memory": &memory} {
		line.Chart = fmt.Sprintf("%s × %d, %s", report.Format(float64(clients)), s.Each, chart)
		line.Over = "seconds after the server was ready again"
	}
	r.Series = append(r.Series, used, memory)
}

// recoveryProfile returns the duration of the profile while clients reconnect. It is longer than that takes, because an idle server adds
// nothing to its profile.
func recoveryProfile(clients int) time.Duration {
	return time.Second + time.Duration(clients)*500*time.Microsecond
}

// put gives every object a version, which the clients acknowledge, so that there is one to lose.
func (s *ObjectRecovery) put(ctx context.Context, site *testbed.Site) error {
	if s.Lost != LostObjects {
		return nil
	}
	for i := range max(s.Pool, s.Each) {
		if err := site.Servers[0].Call(ctx, http.MethodPut, "/v1/objects/"+objectGroup+"/"+loadgen.ObjectName(i), struct{}{}, nil); err != nil {
			return err
		}
	}
	return nil
}

// forget returns a function that removes what is lost from the stores of a killed server: from its folder, or from its database.
func (s *ObjectRecovery) forget(ctx context.Context, db *testbed.Database) func(data string) error {
	switch {
	case db != nil && s.Lost == LostAll:
		return func(string) error { return db.Exec(ctx, "DROP SCHEMA godwit_object CASCADE") }
	case db != nil:
		return func(string) error {
			for _, table := range lostTables[s.Lost] {
				if err := db.Exec(ctx, "DELETE FROM godwit_object."+table); err != nil {
					return err
				}
			}
			return nil
		}
	case s.Lost == LostAll:
		return func(data string) error { return replaceRegistrations(ctx, data) }
	}
	return func(data string) error {
		return stubs.EmptyObjects(ctx, filepath.Join(data, store.ObjectsFile), lostTables[s.Lost]...)
	}
}

// replaceRegistrations removes the database of objects and creates an empty one, as an operator would.
func replaceRegistrations(ctx context.Context, data string) error {
	if err := forgetRegistrations(data); err != nil {
		return err
	}
	_, err := store.Repair(ctx, data)
	return err
}

// forgetRegistrations removes the database of objects, as if its disk had failed.
func forgetRegistrations(data string) error {
	files, err := filepath.Glob(filepath.Join(data, "objects.db*"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no objects.db")
	}
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	if err != nil {
		return fmt.Errorf("forget the registrations: %w", err)
	}
	return nil
}
