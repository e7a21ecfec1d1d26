package pghealth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// Finding is the result of one check, in plain language.
type Finding struct {
	Check, Detail, Hint string
	OK                  bool
}

// Thresholds from which a holder of the horizon is reported. Transactions of stores end within seconds, and a thousand
// commits a second make a hundred thousand in less than two minutes.
const (
	heldLong   = time.Minute
	heldBehind = 100_000
	maxHolders = 5 // more are only counted
)

// Diagnose checks a database for problems that would keep a server from working with it, or from working well.
func Diagnose(ctx context.Context, url string) []Finding {
	h, err := Open(ctx, Config{URL: url})
	if err != nil {
		return []Finding{unreachable(err)}
	}
	defer h.Close()
	f, err := h.Look(ctx)
	if err != nil {
		return []Finding{unreachable(err)}
	}
	return f.judge()
}

func unreachable(err error) Finding {
	f := Finding{Check: "PostgreSQL", Detail: err.Error(), Hint: "look whether it runs, takes connections from this machine, and lets this user in"}
	if errors.Is(err, pgdb.ErrPooled) {
		f.Hint = "in PgBouncer: pool_mode=session for this database; or set postgres to the address of PostgreSQL itself"
	}
	return f
}

func (f *Figures) judge() []Finding {
	list := []Finding{{
		Check: "PostgreSQL", OK: true,
		Detail: fmt.Sprintf("version %s, %d of %d connections in use", f.Version, f.Connections, f.MaxConnections),
	}}
	list = append(list, f.judgeRights())
	list = append(list, f.judgeHorizon()...)
	return append(list, f.judgeVacuum(), f.judgeCommits())
}

// judgeRights looks whether the user can make and change the tables.
func (f *Figures) judgeRights() Finding {
	grant := fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", f.Database, f.User)
	switch {
	case f.Foreign != "":
		return Finding{
			Check: "rights", Detail: fmt.Sprintf("%s do not belong to user %s, which so cannot change their tables when a new version needs that", f.Foreign, f.User),
			Hint: "REASSIGN OWNED BY their owner TO " + f.User + " in this database, or ALTER SCHEMA and ALTER TABLE … OWNER TO " + f.User,
		}
	case !f.Creates && f.Schemas == 0:
		return Finding{Check: "rights", Detail: fmt.Sprintf("user %s may not make schemas in database %s", f.User, f.Database), Hint: grant + ", by the database's owner"}
	case !f.Creates:
		return Finding{Check: "rights", OK: true, Detail: fmt.Sprintf("user %s owns its schemas; a version that brings another one needs %s", f.User, grant)}
	}
	return Finding{Check: "rights", OK: true, Detail: fmt.Sprintf("user %s makes its own schemas, and needs no more", f.User)}
}

// held reports whether the holder exceeds these thresholds.
func (o *Holder) held() bool {
	return o.Since >= heldLong || o.Behind >= heldBehind || o.Kind == Slot && !o.Active
}

func (f *Figures) judgeHorizon() (list []Finding) {
	more := 0
	for i := range f.Holders {
		o := &f.Holders[i]
		switch {
		case !o.held():
		case len(list) == maxHolders:
			more++
		default:
			list = append(list, Finding{Check: "horizon", Detail: o.String(), Hint: o.hint()})
		}
	}
	switch {
	case len(list) == 0:
		list = []Finding{{Check: "horizon", OK: true, Detail: "nobody keeps dead rows from being removed" + f.asFarAsSeen()}}
	case more > 0:
		list[maxHolders-1].Detail += fmt.Sprintf("; and %d more do so", more)
	}
	return list
}

// asFarAsSeen says what a user without the right to see other users' sessions misses.
func (f *Figures) asFarAsSeen() string {
	if f.Monitors {
		return ""
	}
	return fmt.Sprintf(", as far as user %[1]s sees: other users' sessions are hidden from it (GRANT pg_monitor TO %[1]s shows them)", f.User)
}

// Oldest is what keeps dead rows from being removed.
type Oldest struct {
	Since  time.Duration // 0: nobody does, or it is not known for how long
	Holder string        // in words for people
}

// Oldest finds who has kept dead rows for longest, and at least for a second.
func (h *Health) Oldest(ctx context.Context) (oldest Oldest, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("PostgreSQL did not answer within %s", lookWithin))
	defer cancel()
	var f Figures
	if err := h.holders(ctx, &f); err != nil {
		return oldest, fmt.Errorf("look who keeps dead rows: %w", errors.Join(err, context.Cause(ctx)))
	}
	for i := range f.Holders {
		if o := &f.Holders[i]; o.Since > max(oldest.Since, time.Second) {
			oldest = Oldest{o.Since, o.String()}
		}
	}
	return oldest, nil
}

// String describes the holder and what it does.
func (o *Holder) String() string {
	who := map[string]string{
		Backend: "process", Replica: "the replica of process", Slot: "replication slot", Prepared: "prepared transaction",
	}[o.Kind] + " " + o.Name
	if o.About != "" {
		who += " (" + o.About + ")"
	}
	where := "dead rows"
	if o.Catalog {
		where = "dead rows of system tables, and write-ahead log,"
	}
	text := fmt.Sprintf("%s keeps %s from being removed", who, where)
	if o.Known {
		text += " since " + o.Since.Round(time.Second).String()
	}
	return text + fmt.Sprintf(", %d transactions back", o.Behind)
}

func (o *Holder) hint() string {
	quoted := "'" + strings.ReplaceAll(o.Name, "'", "''") + "'"
	switch o.Kind {
	case Slot:
		return "connect what reads from it again; if nothing will any more: SELECT pg_drop_replication_slot(" + quoted + ")"
	case Prepared:
		return "whoever prepared it has to end it; else: ROLLBACK PREPARED " + quoted
	case Replica:
		return "end the long query on that replica, or turn off hot_standby_feedback there"
	}
	return "end its transaction; if nobody can: SELECT pg_terminate_backend(" + o.Name + ")"
}

// orProvider is the way of those who are no superuser.
const orProvider = "; of a managed database: in the parameters that its provider lets you set"

func (f *Figures) judgeVacuum() Finding {
	switch {
	case !f.Autovacuum:
		return Finding{Check: "vacuum", Detail: "autovacuum is off: dead rows are never removed", Hint: "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()" + orProvider}
	case !f.TrackCounts:
		return Finding{Check: "vacuum", Detail: "track_counts is off, so autovacuum does not see which tables need it", Hint: "ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()" + orProvider}
	}
	dead := int64(0)
	for _, r := range f.Rows {
		dead += r.Dead
	}
	return Finding{Check: "vacuum", OK: true, Detail: fmt.Sprintf("autovacuum is on, %d dead rows", dead)}
}

func (f *Figures) judgeCommits() Finding {
	const lost = "what was acknowledged is lost when PostgreSQL's machine stops"
	switch {
	case f.SynchronousCommit == "off":
		return Finding{
			Check: "commits", Detail: "synchronous_commit is off: " + lost,
			Hint: "it may be set for the server, the database or the user: ALTER SYSTEM, ALTER DATABASE or ALTER ROLE … SET synchronous_commit = on" + orProvider,
		}
	case !f.Fsync || !f.FullPageWrites:
		return Finding{Check: "commits", Detail: "fsync or full_page_writes is off: " + lost + ", and the whole database may be damaged", Hint: "set both to on in postgresql.conf" + orProvider}
	}
	return Finding{Check: "commits", OK: true, Detail: "on disk before they are answered (synchronous_commit = " + f.SynchronousCommit + ")"}
}
