// Package outbox has the kinds of source that read a table into which a publisher's transactions write what is to be sent: of a PostgreSQL, a
// MySQL or MariaDB, and a SQLite file. A row that is stored is deleted, so the table itself is the checkpoint.
package outbox

import (
	"cmp"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
	"godwit.dev/godwit/internal/notify/notification"
)

// Names of the kinds.
const (
	PostgreSQL = "postgres-outbox"
	MySQL      = "mysql-outbox"
	SQLite     = "sqlite-outbox"
)

// Fields of the kinds.
const (
	FieldURL      = dbserver.FieldURL
	FieldPassword = dbserver.FieldPassword
	FieldCA       = dbserver.FieldCA
	FieldPath     = "path"
	FieldTable    = "table"
	FieldMark     = "mark"
	FieldObjects  = "objects"
)

// maxPath is the limit of a path, in bytes.
const maxPath = 4096

// defaultTable is the table that Schema makes.
const defaultTable = "godwit_outbox"

// Kind is one of these kinds of source.
type Kind struct {
	dialect *dialect
	server  *dbserver.Server // nil: the database is a file
	open    func(ctx context.Context, t *source.Target, table string) (conn, error)
	schema  string
}

var (
	_ source.Kind    = Kind{}
	_ source.Schemer = Kind{}
	_ source.Sole    = Kind{}
	_ setting.Tidier = Kind{}

	_ setting.Recipient = Kind{}
)

// Kinds returns the kinds by name. ours reports whether a file belongs to a Godwit's own data, which no source may read.
func Kinds(ours func(path string) bool) map[string]source.Kind {
	return map[string]source.Kind{
		PostgreSQL: Kind{dialect: &postgres, server: postgresServer, open: openPostgres, schema: schemaOf("postgres")},
		MySQL:      Kind{dialect: &mysql, server: &mysqlServer, open: openMySQL, schema: schemaOf("mysql")},
		SQLite: Kind{dialect: &sqlite, schema: schemaOf("sqlite"), open: func(ctx context.Context, t *source.Target, _ string) (conn, error) {
			return openSQLite(ctx, t, ours)
		}},
	}
}

// About implements source.Kind.
func (k Kind) About() string { return "rows of an outbox table of " + k.dialect.about }

// Schema implements source.Schemer.
func (k Kind) Schema() string { return k.schema }

// Fields implements source.Kind.
func (k Kind) Fields() []setting.Field {
	var fields []setting.Field
	if k.server == nil {
		fields = []setting.Field{{Name: FieldPath, Address: true, Flag: "sqlite-path", Help: "path of the SQLite file on the server's machine"}}
	} else {
		fields = k.server.Fields()
	}
	return append(
		fields,
		setting.Field{Name: FieldTable, Flag: "table", Help: "the table to read (default: " + defaultTable + ")"},
		setting.Field{Name: FieldMark, Type: setting.Bool, Flag: "mark", Help: "set done_at of rows that are stored, instead of deleting them"},
		setting.Field{Name: FieldObjects, Type: setting.Bool, Flag: "objects", Help: "rows with the columns of Debezium are versions of the object aggregateid in the group aggregatetype"},
	)
}

// Tidy implements setting.Tidier: a password within the URL becomes the field of that name.
func (k Kind) Tidy(v setting.Values) {
	if k.server != nil {
		dbserver.Tidy(v)
	}
}

// Reads implements source.Sole: two sources would divide the rows, whatever their apps.
func (k Kind) Reads(_ setting.Place, v setting.Values) string {
	schema, table, given := strings.Cut(tableOf(v), ".")
	if !given {
		schema, table = "", schema
	}
	if k.server == nil {
		place := v.Text(FieldPath)
		if path, err := filepath.EvalSymlinks(place); err == nil {
			place = path
		}
		return place + " " + cmp.Or(strings.ToLower(schema), "main") + "." + strings.ToLower(table) // SQLite takes letters of both cases for the same
	}
	place := k.server.Place(v)
	if k.dialect == &mysql { // a schema is a database, whichever the URL has
		at := strings.LastIndexByte(place, '/')
		return place[:at+1] + cmp.Or(schema, place[at+1:]) + " " + table
	}
	return place + " " + cmp.Or(schema, "public") + "." + table
}

// What implements source.Sole.
func (k Kind) What(_ setting.Place, v setting.Values) string {
	if k.server == nil {
		return "the table " + tableOf(v) + " of " + v.Text(FieldPath)
	}
	return "the table " + tableOf(v) + " of the database " + k.server.Place(v)
}

// Recipients implements setting.Recipient.
func (k Kind) Recipients(v setting.Values) []string {
	if k.server == nil {
		return nil // a file takes no password
	}
	return k.server.Recipients(v)
}

func tableOf(v setting.Values) string { return cmp.Or(v.Text(FieldTable), defaultTable) }

// named matches the names of tables, with or without a schema.
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$`)
})

// Check implements source.Kind.
func (k Kind) Check(v setting.Values) error {
	if t := v.Text(FieldTable); t != "" && !named().MatchString(t) {
		return notification.BadField(FieldTable, "must be the name of a table: letters, digits, _ and $, with its schema and a dot before it or without")
	}
	if k.server == nil {
		return checkPath(v.Text(FieldPath))
	}
	return k.server.Check(v)
}

func checkPath(path string) error {
	switch {
	case path == "":
		return notification.BadField(FieldPath, "is required: the SQLite file, like /srv/shop/shop.db")
	case len(path) > maxPath:
		return notification.BadField(FieldPath, "has more than %d bytes", maxPath)
	case !filepath.IsAbs(path):
		return notification.BadField(FieldPath, "must begin with /, since the server has a working folder of its own")
	}
	return nil
}

// Open implements source.Kind.
func (k Kind) Open(ctx context.Context, t source.Target) (source.Feed, error) {
	name := tableOf(t.Values)
	c, err := k.open(ctx, &t, name)
	if err != nil {
		return nil, needs(err, name)
	}
	f := &feed{t: &t, dialect: k.dialect, c: c}
	if f.table, err = look(ctx, k.dialect, c, name, t.Values); err != nil {
		c.close()
		return nil, needs(err, name)
	}
	f.table.source = t.Name
	return f, nil
}
