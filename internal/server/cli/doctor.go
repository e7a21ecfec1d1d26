package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/engine/disk"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store"
)

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// doctor makes its checks one after the other. They change nothing, except with --repair.
type doctor struct {
	c       *config.Config
	running bool // a server is using the data folder
	addrs   datadir.Addresses
	from    string         // folder that the running server was started in
	roots   *x509.CertPool // trusted authorities; nil: those of the system
	hint    func(error) string
	modules []module.Module
}

func (p *program) doctorCommand() *cobra.Command {
	var verify, repair bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what could keep a server from working, and say what to do",
		Long: `Look for what could keep a server from working, and say what to do. Of a server that runs on the data folder it takes the
settings, so that --data is all it needs to be told; flags, GODWIT_* variables and godwit.toml count before those.
A certificate is a finding from 21 days before it expires.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			switch {
			case verify && repair:
				return usagef("--verify and --repair exclude each other: repairing verifies")
			case (verify || repair) && c.Postgres != "":
				return withHint(errors.New("--verify and --repair are about the files of a data folder, and what is kept is in PostgreSQL"),
					"pg_amcheck looks for damage there; initdb --data-checksums has PostgreSQL notice it by itself")
			case verify:
				return p.verify(cmd.Context(), c)
			case repair:
				return p.repair(cmd.Context(), c)
			}
			d := &doctor{c: c, hint: p.hintFor, modules: p.modules}
			if d.from, err = adoptRunning(c); err != nil {
				return err
			}
			if p.ca != "" {
				if d.roots, err = authorities(p.ca); err != nil {
					return err
				}
			}
			bad := 0
			for _, check := range []func(context.Context) []finding{one(d.folder), one(d.space), one(d.files), one(d.clock), one(d.listeners), d.certificates, d.postgres, d.subjects, d.sources, d.compat, one(d.health)} {
				for _, f := range check(cmd.Context()) {
					if !f.OK {
						bad++
					}
					if err := p.printFinding(f); err != nil {
						return err
					}
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of the checks found something", bad)
			}
			return nil
		},
	}
	p.settingFlags(cmd)
	p.inSections(cmd)
	cmd.Flags().BoolVar(&verify, "verify", false, "read everything that is stored, beside a running server if there is one, and list what is damaged")
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what is damaged while no server runs: keeps copies, saves what is whole, lists what cannot be saved")
	return cmd
}

// adoptRunning adopts the settings of the server that runs on the data folder, if one does, except those given to the command itself. It
// returns the folder in which the server was started.
func adoptRunning(c *config.Config) (from string, err error) {
	if _, held := datadir.Held(c.Data); !held {
		return "", nil
	}
	s, err := datadir.ReadSettings(c.Data)
	if errors.Is(err, os.ErrNotExist) { // the server is still starting, or is a former version
		return "", nil
	}
	if err == nil {
		err = c.Adopt(s.Values, "the running server")
	}
	if err != nil {
		return "", withHint(fmt.Errorf("take the settings of the running server: %w", err), "give them with flags, or start the server again")
	}
	return s.Folder, nil
}

// one converts a check with one finding into a check with a list of findings.
func one(check func(context.Context) finding) func(context.Context) []finding {
	return func(ctx context.Context) []finding { return []finding{check(ctx)} }
}

func (p *program) printFinding(f finding) error {
	if p.json {
		return p.line(f)
	}
	mark := p.paint(green, "ok  ")
	if !f.OK {
		mark = p.paint(red, "bad ")
	}
	if _, err := fmt.Fprintf(p.stdout, "%s %-12s %s\n", mark, f.Check, f.Detail); err != nil {
		return err
	}
	if f.Hint != "" {
		_, err := fmt.Fprintf(p.stdout, "     %-12s hint: %s\n", "", f.Hint)
		return err
	}
	return nil
}

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
