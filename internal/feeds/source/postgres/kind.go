// Package postgres is the kind of source that reads the changes of a PostgreSQL database from its log: messages that a transaction emits, and
// rows of tables. A replication slot is the checkpoint: the server keeps its log until what it says is stored here.
package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is the name of this kind of source.
const Name = "postgres"

// Fields of the kind.
const (
	FieldURL         = "url"
	FieldPassword    = "password"
	FieldCA          = "ca"
	FieldSlot        = "slot"
	FieldPublication = "publication"
	FieldTables      = "tables"
	FieldSnapshot    = "snapshot"
)

// Limits of a source's settings, in bytes.
const (
	maxURL      = 2048
	maxPassword = 512
	maxCA       = 64 << 10
)

// Kind is this kind of source.
type Kind struct{}

var (
	_ source.Kind    = Kind{}
	_ source.Remover = Kind{}
	_ setting.Tidier = Kind{}
)

// About implements source.Kind.
func (Kind) About() string {
	return "messages of pg_logical_emit_message, and rows of tables, from a PostgreSQL 14 or later with wal_level = logical"
}

// Fields implements source.Kind.
func (Kind) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURL, Address: true, Flag: "postgres-url", Help: "where PostgreSQL is: postgres://user@host:5432/database?sslmode=require"},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the password"},
		{Name: FieldCA, Lines: true, Flag: "postgres-ca", Help: "file with the certificates of the authorities that vouch for the server, PEM (default: the system's)"},
		{Name: FieldSlot, Flag: "slot", Help: "replication slot, which is made (default: godwit_ and the app)"},
		{Name: FieldPublication, Flag: "publication", Help: "publication of the tables (default: one of the slot's name, which is made)"},
		{Name: FieldTables, Type: setting.Tree, Flag: "tables", Help: "file with what the rows of tables become, as JSON"},
		{Name: FieldSnapshot, Type: setting.Bool, Flag: "snapshot", Help: "put the objects of all rows that are there before what follows"},
	}
}

// Tidy implements setting.Tidier: a password within the URL becomes the field of that name.
func (Kind) Tidy(v setting.Values) {
	u, err := url.Parse(v.Text(FieldURL))
	if err != nil || u.User == nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		if _, given := v[FieldPassword]; !given {
			setting.Put(v, FieldPassword, password)
		}
		u.User = url.User(u.User.Username())
		setting.Put(v, FieldURL, u.String())
	}
}

// identifier matches names that need no quotes, as slots and publications have.
var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Check implements source.Kind.
func (Kind) Check(v setting.Values) error {
	if problem := checkURL(v.Text(FieldURL)); problem != "" {
		return notification.BadField(FieldURL, "%s", problem)
	}
	for field, most := range map[string]int{FieldPassword: maxPassword, FieldCA: maxCA} {
		if len(v.Text(field)) > most {
			return notification.BadField(field, "has more than %d bytes", most)
		}
	}
	if ca := v.Text(FieldCA); ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		return notification.BadField(FieldCA, "has no certificate in PEM")
	}
	for _, field := range []string{FieldSlot, FieldPublication} {
		if name := v.Text(field); name != "" && !identifier.MatchString(name) {
			return notification.BadField(field, "must be 1 to 63 lower-case letters, digits and _, and not begin with a digit")
		}
	}
	_, err := readTables(v[FieldTables])
	return err
}

// parameters that a URL may have. Others name files of the server, or change what is read.
var parameters = []string{"sslmode", "host", "user", "target_session_attrs", "application_name", "connect_timeout"}

// checkURL returns what is wrong with the URL of a PostgreSQL. The text never shows the URL, which may contain a password.
func checkURL(raw string) string {
	const example = "postgres://user@host:5432/database"
	if raw == "" {
		return "is required: where PostgreSQL is, like " + example
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Fragment != "" || u.Opaque != "":
		return "is not a URL like " + example
	case u.Hostname() == "" && !strings.HasPrefix(u.Query().Get("host"), "/"):
		return "must name a host, like " + example
	case (u.User == nil || u.User.Username() == "") && u.Query().Get("user") == "":
		return "must name the user, like " + example
	case len(strings.Trim(u.Path, "/")) == 0:
		return "must name the database, like " + example
	}
	if _, secret := u.User.Password(); secret {
		return "must not contain a password: it has a field of its own, which is never shown"
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "has no valid port"
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "is not a URL like " + example
	}
	for name, values := range query {
		switch {
		case !slices.Contains(parameters, name):
			return fmt.Sprintf("may not have %.40q; of parameters there are %s", name, strings.Join(parameters, ", "))
		case name == "sslmode" && !slices.Contains([]string{"disable", "prefer", "require", "verify-ca", "verify-full"}, values[0]):
			return "sslmode must be disable, prefer, require, verify-ca or verify-full"
		case name == "host" && !strings.HasPrefix(values[0], "/"):
			return "host among the parameters may only be the folder of a socket"
		}
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsUnspecified() {
		return "names no host"
	}
	return ""
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
