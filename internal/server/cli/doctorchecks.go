package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/engine/disk"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (d *doctor) folder(context.Context) finding {
	f := finding{Check: "data folder", Detail: d.c.Data}
	info, err := os.Stat(d.c.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		parent := existingParent(d.c.Data)
		if unix.Access(parent, unix.W_OK) != nil {
			f.Detail, f.Hint = fmt.Sprintf("%s does not exist and %s is not writable", d.c.Data, parent), "make it for the server's user, or set --data"
			return f
		}
		f.OK, f.Detail = true, d.c.Data+" will be made"
		return f
	case err != nil:
		f.Detail = err.Error()
		return f
	case !info.IsDir():
		f.Detail, f.Hint = d.c.Data+" is not a folder", "set --data"
		return f
	case unix.Access(d.c.Data, unix.W_OK) != nil:
		f.Detail, f.Hint = d.c.Data+" is not writable", "run as the user that owns it, or set --data"
		return f
	}
	f.OK = true
	if pid, held := datadir.Held(d.c.Data); held {
		d.running = true
		if d.addrs, err = datadir.ReadAddresses(d.c.Data); err != nil {
			f.OK, f.Hint = false, "the server is starting, stopping or stuck: look at its log"
			f.Detail = fmt.Sprintf("%s is held by process %d, which does not say where it listens", d.c.Data, pid)
			return f
		}
		f.Detail = fmt.Sprintf("%s, held by a running server, process %d", d.c.Data, pid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		f.Hint = "other users can look into it: chmod 700 " + d.c.Data
	}
	return f
}

// postgresWithin limits the check of the database: a missing answer is a finding, too.
const postgresWithin = 15 * time.Second

// counts compares the counts in the data folder with their rows.
func (d *doctor) counts(ctx context.Context) (list []finding) {
	if d.c.Postgres != "" {
		return nil
	}
	for _, f := range store.DiagnoseFiles(ctx, d.c.Data, d.running) {
		list = append(list, finding{Check: f.Check, OK: f.OK, Detail: f.Detail, Hint: f.Hint})
	}
	return list
}

// postgres checks the database that the nodes share, if there is one.
func (d *doctor) postgres(ctx context.Context) (list []finding) {
	if d.c.Postgres == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, postgresWithin, fmt.Errorf("PostgreSQL did not answer within %s", postgresWithin))
	defer cancel()
	for _, f := range store.DiagnosePostgres(ctx, d.c.Postgres) {
		list = append(list, finding{Check: f.Check, OK: f.OK, Detail: f.Detail, Hint: f.Hint})
	}
	return list
}

func existingParent(path string) string {
	for {
		path = filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

func (d *doctor) space(context.Context) finding {
	f := finding{Check: "disk space"}
	dir := d.c.Data
	if _, err := os.Stat(dir); err != nil {
		dir = existingParent(dir)
	}
	free, err := disk.Free(dir)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("%s free; publishes are refused below %s", size(free), size(int64(d.c.MinFree)))
	f.OK = free > int64(d.c.MinFree)
	if !f.OK {
		f.Hint = "free space, move the data folder, or lower --min-free"
	}
	return f
}

// fewFiles is a limit of open files that a server with a few thousand sessions exceeds.
const fewFiles = 8192

func (d *doctor) files(context.Context) finding {
	f := finding{Check: "open files", OK: true}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return finding{Check: f.Check, Detail: err.Error()}
	}
	f.Detail = fmt.Sprintf("at most %d, one per connection", r.Max)
	if r.Max < fewFiles {
		f.OK, f.Hint = false, "raise it: ulimit -n 1048576, or LimitNOFILE=1048576 in the systemd unit"
	}
	return f
}

// A clock before this year was never set; retention and expiry would be wrong.
const earliestYear = 2025

func (d *doctor) clock(context.Context) finding {
	now := time.Now()
	f := finding{Check: "clock", OK: now.Year() >= earliestYear, Detail: now.UTC().Format(time.RFC3339)}
	if !f.OK {
		f.Hint = "set the clock, or run a time service such as chrony"
	}
	return f
}

func (d *doctor) listeners(ctx context.Context) finding {
	f := finding{Check: "addresses", OK: true}
	if d.running {
		f.Detail = fmt.Sprintf("HTTP %s, gRPC %s", orOff(d.addrs.HTTP), orOff(d.addrs.GRPC))
		return f
	}
	f.Detail = fmt.Sprintf("HTTP %s and gRPC %s are free", d.c.HTTPAddr, d.c.GRPCAddr)
	var lc net.ListenConfig
	addrs := []string{d.c.ListenAddr(d.c.HTTPAddr), d.c.ListenAddr(d.c.GRPCAddr)}
	if d.c.CompatOn() {
		addrs = append(addrs, d.c.ListenAddr(d.c.CompatHTTPAddr))
	}
	for _, addr := range addrs {
		if addr == "" {
			continue
		}
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil && isGodwit(ctx, addr) {
			return finding{Check: f.Check, Detail: addr + " is taken by a Godwit server, which uses another data folder", Hint: "name its data folder with --data; or choose another address for a second server with --http-addr and --grpc-addr"}
		}
		if err != nil {
			return finding{Check: f.Check, Detail: err.Error(), Hint: "another program listens there; choose another address with --http-addr, --grpc-addr or --compat-http-addr"}
		}
		l.Close()
	}
	return f
}

// isGodwit reports whether a Godwit server answers HTTP at an address.
func isGodwit(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, displayAddr("http", addr)+"/v1/stats", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return strings.Contains(resp.Header.Get("WWW-Authenticate"), `realm="godwit"`)
}

func orOff(addr string) string {
	if addr == "" {
		return config.Off
	}
	return addr
}

func (d *doctor) health(ctx context.Context) finding {
	f := finding{Check: "server"}
	if !d.running {
		f.OK, f.Detail = true, "none runs on this data folder"
		return f
	}
	if d.addrs.HTTP == "" {
		f.OK, f.Detail = true, "runs without an HTTP listener, so it cannot be asked"
		return f
	}
	if err := askReady(ctx, d.c, d.addrs.HTTP); err != nil {
		f.Detail, f.Hint = err.Error(), d.hint(err)
		return f
	}
	f.OK, f.Detail = true, "ready to store"
	return f
}
