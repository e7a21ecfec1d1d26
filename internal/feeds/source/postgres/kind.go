// Package postgres is the kind of source that reads the changes of a PostgreSQL database from its log: messages that a transaction emits, and
// rows of tables. A replication slot is the checkpoint: the server keeps its log until what it says is stored here.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is the name of this kind of source.
const Name = "postgres"

// Fields of the kind.
const (
	FieldURL         = dbserver.FieldURL
	FieldPassword    = dbserver.FieldPassword
	FieldCA          = dbserver.FieldCA
	FieldSlot        = "slot"
	FieldPublication = "publication"
	FieldTables      = "tables"
	FieldSnapshot    = "snapshot"
)

// server is what the URL of a source may have.
var server = dbserver.PostgreSQL("postgres://user@host:5432/database?sslmode=require", "connect_timeout")

// Kind is this kind of source.
type Kind struct{}

var (
	_ source.Kind    = Kind{}
	_ source.Remover = Kind{}
	_ source.Sole    = Kind{}
	_ setting.Tidier = Kind{}
)

// About implements source.Kind.
func (Kind) About() string {
	return "messages of pg_logical_emit_message, and rows of tables, from a PostgreSQL 14 or later with wal_level = logical"
}

// Fields implements source.Kind.
func (Kind) Fields() []setting.Field {
	return append(
		server.Fields(),
		setting.Field{Name: FieldSlot, Flag: "slot", Help: "replication slot, which is made (default: godwit_ and the app)"},
		setting.Field{Name: FieldPublication, Flag: "publication", Help: "publication of the tables (default: one of the slot's name, which is made)"},
		setting.Field{Name: FieldTables, Type: setting.Tree, Flag: "tables", Help: "file with what the rows of tables become, as JSON or TOML"},
		setting.Field{Name: FieldSnapshot, Type: setting.Bool, Flag: "snapshot", Help: "put the objects of all rows that are there before what follows"},
	)
}

// Tidy implements setting.Tidier: a password within the URL becomes the field of that name.
func (Kind) Tidy(v setting.Values) { dbserver.Tidy(v) }

// Reads implements source.Sole: two sources of an app would both send its messages.
func (Kind) Reads(at setting.Place, v setting.Values) string { return at.App + " " + server.Place(v) }

// What implements source.Sole.
func (Kind) What(_ setting.Place, v setting.Values) string {
	return "messages for the app in the database " + server.Place(v)
}

// Recipients implements setting.Recipient.
func (Kind) Recipients(v setting.Values) []string { return server.Recipients(v) }

// identifier matches names that need no quotes, as slots and publications have.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`) })

// Check implements source.Kind.
func (Kind) Check(v setting.Values) error {
	if err := server.Check(v); err != nil {
		return err
	}
	for _, field := range []string{FieldSlot, FieldPublication} {
		if name := v.Text(field); name != "" && !identifier().MatchString(name) {
			return notification.BadField(field, "must be 1 to 63 lower-case letters, digits and _, and not begin with a digit")
		}
	}
	_, err := readTables(v[FieldTables])
	return err
}

// slot is the name of a source's replication slot.
func slot(t *source.Target) string {
	if name := t.Values.Text(FieldSlot); name != "" {
		return name
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, t.App)
	return ("godwit_" + name)[:min(len("godwit_"+name), maxName)]
}

// publication is the name of a source's publication. own is set if the source makes it.
func publication(t *source.Target) (name string, own bool) {
	if name := t.Values.Text(FieldPublication); name != "" {
		return name, false
	}
	return slot(t), true
}

// Open implements source.Kind.
func (Kind) Open(ctx context.Context, t source.Target) (source.Feed, error) {
	tables, err := readTables(t.Values[FieldTables])
	if err != nil {
		return nil, err
	}
	return open(ctx, t, tables)
}

// Remove implements source.Remover: it drops the replication slot, and the publication that the source has made.
func (Kind) Remove(ctx context.Context, t source.Target) error {
	p, err := readPosition(&t)
	if err != nil {
		return err
	}
	if p == nil || p.Slot == "" {
		return nil // it has made none
	}
	c, err := connect(ctx, &t, false)
	if err != nil {
		return fmt.Errorf("drop the replication slot %s: %w", p.Slot, err)
	}
	defer c.close()
	err = c.dropSlot(ctx, p.Slot)
	if name, own := publication(&t); own {
		err = errors.Join(err, c.exec(ctx, "DROP PUBLICATION IF EXISTS "+quoted(name)))
	}
	return err
}
