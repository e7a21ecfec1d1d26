// Package appsql keeps what is set up of apps on either database: apps, API keys, hooks, sources, sinks, templates, the settings of
// channels, who is signed in to the web page, and the audit log. The SQL is the same on both; DB has the differences.
package appsql

import (
	"context"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/sqltx"
)

// DB is a database with the tables of apps. Each of its transactions may run anew from nothing. op names it in errors.
type DB interface {
	// Read runs f in a transaction that sees one moment.
	Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
	// Change runs f in a transaction. Afterwards it wakes watchers if f succeeds and returns true.
	Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) (wake bool, err error)) error
	// Note runs f in a transaction that wakes no watchers, when it is the app's turn.
	Note(ctx context.Context, app, op string, f func(context.Context, sqltx.Tx) error) error
	// Watch calls changed within a second after any process has changed something, until ctx ends.
	Watch(ctx context.Context, changed func()) error
	// Taken reports whether a row was not inserted because there is one of its key.
	Taken(err error) bool
	// TouchKeys notes when keys were last used. Stored times that are later stay.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}

// Store keeps the settings of apps.
type Store struct {
	db DB

	Hooks     Table[hook.Hook]
	Sources   Table[source.Source]
	Sinks     Table[sink.Sink]
	Channels  Table[channel.Record]
	templates Table[template.Template]
}

var (
	_ access.Store      = (*Store)(nil)
	_ template.Store    = (*Store)(nil)
	_ signin.LoginStore = (*Store)(nil)
	_ audit.Store       = (*Store)(nil)
)

// New makes the store of a database.
func New(db DB) *Store {
	return &Store{db: db, Hooks: hooks(db), Sources: sources(db), Sinks: sinks(db), Channels: channels(db), templates: templates(db)}
}

// Watch implements access.Store.
func (s *Store) Watch(ctx context.Context, changed func()) error { return s.db.Watch(ctx, changed) }

// TouchKeys implements access.Store.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return s.db.TouchKeys(ctx, used)
}

// LookAtChannels reads the settings of channels from a table that may have been made by a former version.
func LookAtChannels(ctx context.Context, tx sqltx.Tx, table string) ([]channel.Record, error) {
	return sqltx.Collect(ctx, tx, readChannel, "SELECT "+strings.Join(channelColumns, ", ")+" FROM "+table)
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
