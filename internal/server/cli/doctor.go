package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
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
			case repair && c.Postgres != "":
				return withHint(errors.New("--repair is about the files of a data folder, and what is kept is in PostgreSQL"),
					"restore a backup; --verify tells which counts differ from what they count")
			case verify && c.Postgres != "":
				return p.verifyPostgres(cmd.Context(), c)
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
			return p.diagnose(cmd.Context(), d)
		},
	}
	p.settingFlags(cmd)
	p.inSections(cmd)
	cmd.Flags().BoolVar(&verify, "verify", false, "read everything that is stored, beside a running server if there is one, and list what is damaged; with PostgreSQL: which counts differ from what they count")
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what is damaged while no server runs: keeps copies, saves what is whole, lists what cannot be saved")
	return cmd
}

// diagnose makes all checks and prints what they find.
func (p *program) diagnose(ctx context.Context, d *doctor) error {
	bad := 0
	for _, check := range []func(context.Context) []finding{one(d.folder), one(d.space), one(d.files), one(d.clock), one(d.listeners), d.certificates, d.counts, d.postgres, d.subjects, d.sources, d.compat, one(d.health)} {
		for _, f := range check(ctx) {
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
