// Package scenario defines the measurements: each scenario sets up servers and load, measures, and returns the result.
package scenario

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/engine/pause"
)

// Common holds the settings that all scenarios share.
type Common struct {
	Testbed *testbed.Testbed
	Runs    int // 0: the scenario's own default
	First   int // number of the first run, for runs that are started one by one
	Workers int // number of processes that hold subscribers; more are started if the connections need them
	Command string
	Version string
}

// begin starts a result.
func (c *Common) begin(name, title string, settings ...report.Setting) *report.Result {
	r := &report.Result{
		Scenario: name, Title: title, Command: c.Command, Version: c.Version, Machine: meter.Describe(c.Testbed.Server.Dir), Settings: settings,
	}
	if c.Runs > 0 {
		r.Settings = append(r.Settings, set("runs", c.Runs))
	}
	for _, limit := range c.Testbed.Server.Confined.Describe() {
		r.Settings = append(r.Settings, set(limit[0], limit[1]))
	}
	if p := c.Testbed.Server.Postgres; p != nil {
		r.Settings = append(r.Settings, set("PostgreSQL", p.Version))
	}
	for _, m := range c.Testbed.Machines {
		r.Machines = append(r.Machines, report.Machine{Name: m.Name, Host: m.Host})
	}
	if c.Testbed.Running != nil {
		r.Note("measured a server that was running already")
	}
	return r
}

func set(name string, value any) report.Setting {
	return report.Setting{Name: name, Value: fmt.Sprint(value)}
}

// prefix returns a new prefix for the recipients of one run, so that none of them exists yet.
func prefix() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return "bench-" + hex.EncodeToString(b[:]) + "-"
}

// heartbeat is so long that no heartbeat disturbs a measurement.
const heartbeat = 24 * time.Hour

// opening is the number of connections that a worker opens at a time where opening is not measured.
const opening = 128

// arrivals is how long deliveries may take after the last publish was answered.
const arrivals = 15 * time.Second

// runs calls run once for each run.
func (c *Common) runs(ctx context.Context, run func(ctx context.Context, n int) error) error {
	for n := c.First; n < c.First+max(c.Runs, 1); n++ {
		if err := run(ctx, n); err != nil {
			return fmt.Errorf("run %d: %w", n+1, err)
		}
	}
	return nil
}

// wait waits for d, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	if !pause.For(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// profileName returns a separate file name for each run's profile.
func profileName(file string, run int) string {
	if run == 0 {
		return file
	}
	for _, ext := range []string{".pb.gz", ".pprof"} {
		if base, ok := strings.CutSuffix(file, ext); ok {
			return base + "-" + strconv.Itoa(run+1) + ext
		}
	}
	return file + "-" + strconv.Itoa(run+1)
}

// viaFor returns the usual way to publish for a transport, used if none is set.
func viaFor(transport string) string {
	if transport == loadgen.GRPC {
		return loadgen.ViaGRPC
	}
	return loadgen.ViaHTTP
}

const (
	mb = 1 << 20
	kb = 1 << 10
)

// profile makes a server profile its CPU use for about span, if profiles are wanted. nil: they are not.
func (c *Common) profile(ctx context.Context, of *testbed.Server, span time.Duration, run int) *testbed.Profile {
	if c.Testbed.Profile == "" {
		return nil
	}
	return testbed.StartProfile(ctx, of, span, profileName(c.Testbed.Profile, run))
}
