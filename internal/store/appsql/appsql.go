// Package appsql stores the settings of apps on either database: apps, API keys, hooks, sources, sinks, templates, segments, the settings
// of channels, logins to the web page, and the audit log. The SQL is the same on both; DB hides the differences.
package appsql

import (
	"context"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/sqltx"
)

// DB is a database with the tables of apps. It may run a transaction's function again from the start. op names the transaction in errors.
type DB interface {
	// Read runs f in a transaction with a snapshot.
	Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
	// Change runs f in a transaction. If f succeeds and returns true, Change then wakes watchers.
	Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) (wake bool, err error)) error
	// Note runs f in a transaction that wakes no watchers, once it is the app's turn.
	Note(ctx context.Context, app, op string, f func(context.Context, sqltx.Tx) error) error
	// Watch calls changed within a second after any process has changed something, until ctx ends.
	Watch(ctx context.Context, changed func()) error
	// Taken reports whether an insert failed because a row with its key exists.
	Taken(err error) bool
	// TouchKeys records the times of keys' last use. Later stored times stay.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}

// Store stores the settings of apps.
type Store struct {
	db DB

	Hooks     Table[hook.Hook]
	Sources   Table[source.Source]
	Sinks     Table[sink.Sink]
	Channels  Table[channel.Record]
	Segments  Table[segment.Segment]
	templates Table[template.Template]
}

var (
	_ access.Store      = (*Store)(nil)
	_ template.Store    = (*Store)(nil)
	_ segment.Store     = (*Table[segment.Segment])(nil)
	_ signin.LoginStore = (*Store)(nil)
	_ audit.Store       = (*Store)(nil)
)

// New makes the store of a database.
func New(db DB) *Store {
	return &Store{db: db, Hooks: hooks(db), Sources: sources(db), Sinks: sinks(db), Channels: channels(db), Segments: segments(db), templates: templates(db)}
}

// Watch implements access.Store.
func (s *Store) Watch(ctx context.Context, changed func()) error { return s.db.Watch(ctx, changed) }

// TouchKeys implements access.Store.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return s.db.TouchKeys(ctx, used)
}

// LookAtChannels reads the settings of channels from a table, which a former version may have created.
func LookAtChannels(ctx context.Context, tx sqltx.Tx, table string) ([]channel.Record, error) {
	return sqltx.Collect(ctx, tx, readChannel, "SELECT "+strings.Join(channelColumns, ", ")+" FROM "+table)
}

// LookAtSources reads the settings of sources from a table, which a former version may have created.
func LookAtSources(ctx context.Context, tx sqltx.Tx, table string) ([]source.Source, error) {
	t := sources(nil)
	return sqltx.Collect(ctx, tx, t.read, "SELECT "+strings.Join(t.columns, ", ")+" FROM "+table)
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
