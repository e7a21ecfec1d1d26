package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/feeds/source"
)

var _ source.Examiner = Kind{}

// Examine implements source.Examiner.
func (Kind) Examine(ctx context.Context, t source.Target) []source.Check {
	x := &examination{feed: &feed{t: &t, slot: slot(&t)}}
	x.publication, x.own = publication(&t)
	var err error
	if x.tables, err = readTables(t.Values[FieldTables]); err != nil {
		return append(x.list, source.Check{Detail: err.Error(), Hint: "set the source again"})
	}
	if x.c, err = connect(ctx, &t, false); err != nil {
		return append(x.list, source.Check{Detail: "cannot connect: " + err.Error(), Hint: "look at the URL, the password, the network and pg_hba.conf"})
	}
	defer x.c.close()
	for _, look := range []func(context.Context) error{x.level, x.replication, x.slotThere, x.kept, x.freed, x.published, x.mapped} {
		if err := look(ctx); err != nil {
			x.bad("", "it is asked of PostgreSQL and has no answer: %s", err)
			break
		}
	}
	return x.list
}

// examination looks at the server of a source, one thing after the other.
type examination struct {
	*feed
	list []source.Check
}

// good adds a finding. A hint is what may soon be wrong.
func (x *examination) good(hint, detail string, args ...any) {
	x.list = append(x.list, source.Check{OK: true, Detail: fmt.Sprintf(detail, args...), Hint: hint})
}

func (x *examination) bad(hint, detail string, args ...any) {
	x.list = append(x.list, source.Check{Detail: fmt.Sprintf(detail, args...), Hint: hint})
}

func (x *examination) level(ctx context.Context) error {
	level, _, err := x.c.one(ctx, "SHOW wal_level")
	switch {
	case err != nil:
		return err
	case level == "logical":
		x.good("", "wal_level is logical")
	default:
		x.bad("ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL; managed databases have a setting for it", "wal_level is %s", level)
	}
	return nil
}

// replication tries the connection that reads the log, for which the user needs a right, and pg_hba.conf and max_wal_senders room.
func (x *examination) replication(ctx context.Context) error {
	c, err := connect(ctx, x.t, true)
	if err == nil {
		_, err = c.identify(ctx)
		c.close()
	}
	if err != nil {
		x.bad("ALTER ROLE … REPLICATION (of managed databases: the role rds_replication, or what their manual says), and raise max_wal_senders if all are in use",
			"its user cannot read the log: %s", err)
		return nil
	}
	x.good("", "its user may read the log")
	return nil
}

func (x *examination) slotThere(ctx context.Context) error {
	s, err := x.c.slot(ctx, x.slot)
	if err != nil && s.exists {
		x.bad("", "%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	resync := "godwit source resync " + x.t.Name + " makes a slot and reads the tables anew"
	if !s.exists {
		x.bad("a server makes it when it reads the source for the first time; if it did before, "+resync, "the replication slot %s does not exist", x.slot)
		return nil
	}
	kept, _, err := x.c.one(ctx, `SELECT pg_size_pretty(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn))
		FROM pg_replication_slots WHERE slot_name = `+literal(x.slot))
	switch {
	case err != nil:
		return err
	case s.lost:
		x.bad("what was committed since may be missing; "+resync, "the replication slot %s is lost (wal_status): its log grew above max_slot_wal_keep_size", x.slot)
	case s.active == "":
		x.bad("start the server, or resume the source; remove the source if nobody needs it", "the replication slot %s is inactive and keeps %s of log: nobody reads it", x.slot, kept)
	case s.status == "unreserved":
		x.bad("let the source catch up at once, or raise max_slot_wal_keep_size", "the replication slot %s keeps %s of log and will be lost at the next checkpoint (wal_status is unreserved)", x.slot, kept)
	default:
		x.good("", "the replication slot %s is read and keeps %s of log", x.slot, kept)
	}
	return nil
}

// kept looks at the limit of the log that slots keep.
func (x *examination) kept(ctx context.Context) error {
	limit, _, err := x.c.one(ctx, "SHOW max_slot_wal_keep_size")
	switch {
	case err != nil:
		return err
	case limit == "-1":
		x.good("the log fills the disk of PostgreSQL if nobody reads the slot for long: ALTER SYSTEM SET max_slot_wal_keep_size = '50GB', for example, and pg_reload_conf()",
			"max_slot_wal_keep_size is unlimited")
	default:
		x.good("", "max_slot_wal_keep_size is %s", limit)
	}
	return nil
}

// freed looks at how often the source may let PostgreSQL free its log.
func (x *examination) freed(ctx context.Context) error {
	may, silent, err := x.c.logsRunning(ctx)
	if err != nil {
		return err
	}
	if may || silent {
		x.good("", "PostgreSQL can free its log after each %d MB that its databases write", quiet.after>>20)
		return nil
	}
	hint := "a superuser could do it more often, without lines in PostgreSQL's log file"
	switch {
	case x.c.version >= 160_000:
		hint = "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO its user: then it can more often, and the source writes no lines into PostgreSQL's log file"
	case x.c.version >= 150_000:
		hint = "GRANT SET ON PARAMETER log_min_messages TO its user: then it can more often, and the source writes no lines into PostgreSQL's log file"
	}
	x.good(hint, "PostgreSQL can free its log after each %d MB that its databases write", loud.after>>20)
	return nil
}

func (x *examination) published(ctx context.Context) error {
	_, exists, err := x.c.one(ctx, "SELECT 1 FROM pg_publication WHERE pubname = "+literal(x.publication))
	if err != nil {
		return err
	}
	if !exists {
		hint := x.creates(x.tables)
		if x.own {
			hint = "a server makes it when it reads the source for the first time; if it did before, godwit source resync " + x.t.Name + " makes it anew"
		}
		x.bad(hint, "the publication %s does not exist", x.publication)
		return nil
	}
	missing, err := x.missing(ctx, x.c)
	if err != nil {
		return err
	}
	for _, t := range missing {
		x.bad(x.adds(t), "the publication %s does not have the table %s", x.publication, t.full())
	}
	if len(missing) == 0 {
		x.good("", "the publication %s has all %s tables of the mapping", x.publication, strconv.Itoa(len(x.tables)))
	}
	return nil
}

// mapped looks at the columns of tables, and at those that PostgreSQL tells of deleted rows (REPLICA IDENTITY).
func (x *examination) mapped(ctx context.Context) error {
	for i := range x.tables {
		t := &x.tables[i]
		columns, err := x.column(ctx, "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = "+t.oid())
		if err != nil {
			return err
		}
		logged, _, err := x.columns(ctx, x.c, t)
		if err != nil {
			return err
		}
		identity, err := x.column(ctx, `SELECT a.attname FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (c.relreplident = 'f' OR a.attnum = ANY(i.indkey)) WHERE c.oid = `+t.oid())
		if err != nil {
			return err
		}
		x.identity(t, columns, logged, identity)
	}
	return nil
}

// oid is an expression for a table's number; it is NULL if there is no table.
func (t *Table) oid() string { return "to_regclass(" + literal(t.qualified()) + ")" }

func (x *examination) column(ctx context.Context, sql string) (names []string, err error) {
	rows, err := x.c.query(ctx, sql)
	for _, r := range rows {
		names = append(names, string(r[0]))
	}
	return names, err
}

func (x *examination) identity(t *Table, columns, logged, identity []string) {
	full := "ALTER TABLE " + t.qualified() + " REPLICA IDENTITY FULL"
	lacks := func(of []string, names ...string) string {
		return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name == "" || slices.Contains(of, name) }), ", ")
	}
	var unlogged []string
	for _, name := range slices.Concat([]string{t.Recipient, t.ID, t.Object, t.Title, t.Body, t.Category, t.Group}, t.Data, t.Payload) {
		if slices.Contains(columns, name) && !slices.Contains(logged, name) && !slices.Contains(unlogged, name) {
			unlogged = append(unlogged, name)
		}
	}
	key := []string{t.Object}
	if slices.Contains(columns, t.Group) {
		key = append(key, t.Group)
	}
	if slices.Contains(t.On, "delete") {
		key = append(key, t.Recipient, t.ID)
	}
	switch {
	case len(columns) == 0:
		x.bad("make the table, or set the source again without it", "the table %s does not exist, or its user may not see it", t.full())
	case lacks(columns, slices.Concat([]string{t.Recipient, t.ID, t.Object}, t.Data, t.Payload)...) != "":
		x.bad("set the source again with the columns of the table", "the table %s does not have the columns %s of the mapping", t.full(), lacks(columns, slices.Concat([]string{t.Recipient, t.ID, t.Object}, t.Data, t.Payload)...))
	case len(unlogged) > 0:
		x.bad("set the source again without them, or let the publication have them: generated columns are in the log from PostgreSQL 18 on, with publish_generated_columns = stored",
			"the log lacks the columns %s of %s, which the mapping names: they are generated, or the publication leaves them out", strings.Join(unlogged, ", "), t.full())
	case len(identity) == 0:
		x.bad(full+", or give it a primary key", "the table %s has no replica identity: PostgreSQL refuses to update and delete its rows while it is published", t.full())
	case lacks(identity, key...) != "":
		x.bad(full, "of deleted rows of %s PostgreSQL does not tell %s, which the mapping needs", t.full(), lacks(identity, key...))
	default:
		x.good("", "the table %s has the columns and the replica identity that the mapping needs", t.full())
	}
}
