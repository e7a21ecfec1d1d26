package appdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ channel.Store = (*Store)(nil)

const channelTable = `
CREATE TABLE channel (
	app        TEXT NOT NULL,
	channel    TEXT NOT NULL,
	enabled    INTEGER NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	updated_at INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY (app, channel)
) STRICT, WITHOUT ROWID;
`

// Channels reads all settings of channels.
func (s *Store) Channels(ctx context.Context) (list []channel.Record, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list, err = readChannels(c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

func readChannel(row *sqlite.Stmt) (channel.Record, error) {
	r := channel.Record{
		App: row.ColumnText(0), Channel: push.Channel(row.ColumnText(1)), Enabled: row.ColumnInt64(2) != 0,
		UpdatedAt: fromMillis(row.ColumnInt64(4)),
	}
	return r, appjson.ReadChannel(&r, row.ColumnText(3))
}

// UpdateChannel changes or makes an app's settings of a channel.
func (s *Store) UpdateChannel(ctx context.Context, app string, ch push.Channel, change func(*channel.Record) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, app); err != nil {
			return err
		}
		r := channel.Record{App: app, Channel: ch, Enabled: true, Values: channel.Values{}}
		err := sqlitedb.Each(c, "SELECT app, channel, enabled, settings, updated_at FROM channel WHERE app = ? AND channel = ?",
			[]any{app, string(ch)}, func(row *sqlite.Stmt) (err error) {
				r, err = readChannel(row)
				return err
			})
		if err != nil {
			return err
		}
		if err := change(&r); err != nil {
			return err
		}
		set, err := appjson.Channel(&r)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT OR REPLACE INTO channel(app, channel, enabled, settings, updated_at) VALUES (?, ?, ?, ?, ?)",
			[]any{app, string(ch), r.Enabled, set, r.UpdatedAt.UnixMilli()}, nil)
	})
}

// DeleteChannel deletes an app's settings of a channel.
func (s *Store) DeleteChannel(ctx context.Context, app string, ch push.Channel) (found bool, err error) {
	err = s.change(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM channel WHERE app = ? AND channel = ?", []any{app, string(ch)}, nil)
		found = c.Changes() > 0
		return err
	})
	return found, err
}

// haveApp fails with access.ErrUnknownApp where there is no such app.
func haveApp(c *sqlite.Conn, app string) error {
	found := false
	err := sqlitedb.Each(c, "SELECT 1 FROM app WHERE name = ?", []any{app}, func(*sqlite.Stmt) error { found = true; return nil })
	if err == nil && !found {
		err = fmt.Errorf("%w: %.128q", access.ErrUnknownApp, app)
	}
	return err
}
