package appdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/appjson"
)

var _ channel.Store = (*Store)(nil)

const (
	channelColumns = "app, channel, enabled, settings, updated_at"
	selectChannels = "SELECT " + channelColumns + " FROM channel"
)

// Channels reads all settings of channels.
func (s *Store) Channels(ctx context.Context) (list []channel.Record, err error) {
	err = s.db.Read(ctx, "read settings of channels", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readChannel, selectChannels)
		return err
	})
	return list, err
}

func readChannel(row pgx.CollectableRow) (r channel.Record, err error) {
	var updated int64
	var set string
	if err := row.Scan(&r.App, &r.Channel, &r.Enabled, &set, &updated); err != nil {
		return r, err
	}
	r.UpdatedAt = fromMillis(updated)
	return r, appjson.ReadChannel(&r, set)
}

// UpdateChannel changes or makes an app's settings of a channel.
func (s *Store) UpdateChannel(ctx context.Context, app string, ch push.Channel, change func(*channel.Record) error) error {
	return s.change(ctx, fmt.Sprintf("change settings of %s", ch), func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		found, err := collect(ctx, tx, readChannel, selectChannels+" WHERE app = $1 AND channel = $2", app, string(ch))
		if err != nil {
			return false, err
		}
		r := channel.Record{App: app, Channel: ch, Enabled: true, Values: channel.Values{}}
		if len(found) > 0 {
			r = found[0]
		}
		if err := change(&r); err != nil {
			return false, err
		}
		set, err := appjson.Channel(&r)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO channel (app, channel, enabled, settings, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, channel) DO UPDATE SET enabled = excluded.enabled, settings = excluded.settings, updated_at = excluded.updated_at`,
			app, string(ch), r.Enabled, set, r.UpdatedAt.UnixMilli())
		return true, err
	})
}

// DeleteChannel deletes an app's settings of a channel.
func (s *Store) DeleteChannel(ctx context.Context, app string, ch push.Channel) (found bool, err error) {
	err = s.change(ctx, fmt.Sprintf("delete settings of %s", ch), func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM channel WHERE app = $1 AND channel = $2", app, string(ch))
		found = tag.RowsAffected() > 0
		return found, err
	})
	return found, err
}
