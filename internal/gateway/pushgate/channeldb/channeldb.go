// Package channeldb stores the devices of the push service and their channels, in SQLite and PostgreSQL.
package channeldb

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"io/fs"
	"time"

	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed sqlite postgres
var migrations embed.FS

// Migrations are those of the tables.
func Migrations() (sqlite, postgres fs.FS) { return sqltx.Migrations(migrations) }

const (
	seenEvery  = 24 * time.Hour // how often a device that comes is noted as seen
	sweepSlice = 500            // devices that one commit deletes
	tokenBytes = 24             // random bytes of a token; RFC 8030 section 8.3 asks for 15
)

// TokenLength is the length of every token.
const TokenLength = tokenBytes * 4 / 3

// ErrTooMany means that the device has as many channels as a device may have.
var ErrTooMany = errors.New("the device has as many channels as a device may have")

// Channel is a subscription of a device.
type Channel struct {
	Token  string // of its push endpoint
	Device string
	Name   string // the device's name for it
	Sender string // public key of the only sender that may use it; empty: any may
}

// Store stores devices and channels.
type Store struct {
	DB   sqltx.Database
	Most int // channels of a device
	Now  func() time.Time
}

// Known reports whether a device has channels or had some lately, and notes that it has come.
func (s *Store) Known(ctx context.Context, device string) (known bool, err error) {
	var seen int64
	err = s.DB.Read(ctx, "find a push device", func(ctx context.Context, tx sqltx.Tx) error {
		known = false
		return tx.Each(ctx, "SELECT seen FROM device WHERE id = $1", []any{device}, func(r sqltx.Row) error {
			known = true
			return r.Scan(&seen)
		})
	})
	now := s.Now().UnixMilli()
	if err != nil || !known || now-seen < seenEvery.Milliseconds() {
		return known, err
	}
	err = s.DB.Change(ctx, "note that a push device has come", func(ctx context.Context, tx sqltx.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE device SET seen = $2 WHERE id = $1", device, now)
		known = n > 0 // else it was deleted meanwhile
		return err
	})
	return known, err
}

// Register makes a channel of a device, and returns its token. The same name with the same sender keeps its token; with another sender it gets a new one,
// and the former one ends.
func (s *Store) Register(ctx context.Context, device, name, sender string) (token string, err error) {
	now := s.Now().UnixMilli()
	err = s.DB.Change(ctx, "register a push channel", func(ctx context.Context, tx sqltx.Tx) error {
		// The row of the device is locked from here on, so that two registrations together do not pass the limit.
		if _, err := tx.Exec(ctx, "INSERT INTO device (id, seen) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen", device, now); err != nil {
			return err
		}
		var former string
		token = ""
		err := tx.Each(ctx, "SELECT token, sender FROM channel WHERE device = $1 AND name = $2", []any{device, name}, func(r sqltx.Row) error { return r.Scan(&token, &former) })
		switch {
		case err != nil || token != "" && former == sender:
			return err
		case token != "":
			_, err = tx.Exec(ctx, "DELETE FROM channel WHERE token = $1", token)
		default:
			err = s.room(ctx, tx, device)
		}
		if err != nil {
			return err
		}
		token = newToken()
		_, err = tx.Exec(ctx, "INSERT INTO channel (token, device, name, sender, made) VALUES ($1, $2, $3, $4, $5)", token, device, name, sender, now)
		return err
	})
	return token, err
}

// room fails if a device has as many channels as it may have.
func (s *Store) room(ctx context.Context, tx sqltx.Tx, device string) error {
	n, err := sqltx.Collect(ctx, tx, sqltx.One[int64], "SELECT count(*) FROM channel WHERE device = $1", device)
	if err == nil && n[0] >= int64(s.Most) {
		err = ErrTooMany
	}
	return err
}

func newToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Unregister deletes a channel of a device, if there is one.
func (s *Store) Unregister(ctx context.Context, device, name string) error {
	return s.DB.Change(ctx, "delete a push channel", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM channel WHERE device = $1 AND name = $2", device, name)
		return err
	})
}

// Find returns the channel of a token; nil: there is none.
func (s *Store) Find(ctx context.Context, token string) (found *Channel, err error) {
	err = s.DB.Read(ctx, "find a push channel", func(ctx context.Context, tx sqltx.Tx) error {
		found = nil
		return tx.Each(ctx, "SELECT device, name, sender FROM channel WHERE token = $1", []any{token}, func(r sqltx.Row) error {
			found = &Channel{Token: token}
			return r.Scan(&found.Device, &found.Name, &found.Sender)
		})
	})
	return found, err
}

// Sweep deletes some devices that have not come since then, with their channels, and returns them. more: there may be others.
func (s *Store) Sweep(ctx context.Context, since time.Time) (gone []string, more bool, err error) {
	const found = "SELECT id FROM device WHERE seen < $1 ORDER BY seen LIMIT $2"
	before := since.UnixMilli()
	err = s.DB.Read(ctx, "find push devices that have not come for long", func(ctx context.Context, tx sqltx.Tx) (err error) {
		gone, err = sqltx.Collect(ctx, tx, sqltx.One[string], found, before, sweepSlice)
		return err
	})
	if err != nil || len(gone) == 0 {
		return nil, false, err
	}
	err = s.DB.Change(ctx, "delete push devices that have not come for long", func(ctx context.Context, tx sqltx.Tx) (err error) {
		gone, err = sqltx.Collect(ctx, tx, sqltx.One[string], "DELETE FROM device WHERE seen < $1 AND id IN ("+found+") RETURNING id", before, sweepSlice)
		for _, id := range gone {
			if err == nil {
				_, err = tx.Exec(ctx, "DELETE FROM channel WHERE device = $1", id)
			}
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return gone, len(gone) == sweepSlice, nil
}

// Counts are numbers of devices, of channels, and of channels that only one sender may use.
type Counts struct{ Devices, Channels, Bound int64 }

// Count counts devices and channels.
func (s *Store) Count(ctx context.Context) (n Counts, err error) {
	err = s.DB.Read(ctx, "count push devices and channels", func(ctx context.Context, tx sqltx.Tx) error {
		const all = "SELECT (SELECT count(*) FROM device), (SELECT count(*) FROM channel), (SELECT count(*) FROM channel WHERE sender <> '')"
		return tx.Each(ctx, all, nil, func(r sqltx.Row) error { return r.Scan(&n.Devices, &n.Channels, &n.Bound) })
	})
	return n, err
}

// Device is a device, with the numbers of its channels and of those that only one sender may use.
type Device struct {
	ID              string
	Seen            time.Time // a day ago at most if the device is connected
	Channels, Bound int64
}

// Latest lists at most most devices, those first that came last.
func (s *Store) Latest(ctx context.Context, most int) (list []Device, err error) {
	const latest = "SELECT d.id, d.seen, (SELECT count(*) FROM channel c WHERE c.device = d.id), (SELECT count(*) FROM channel c WHERE c.device = d.id AND c.sender <> '') FROM device d ORDER BY d.seen DESC, d.id LIMIT $1"
	err = s.DB.Read(ctx, "list push devices", func(ctx context.Context, tx sqltx.Tx) error {
		list = nil
		return tx.Each(ctx, latest, []any{most}, func(r sqltx.Row) error {
			var d Device
			var seen int64
			err := r.Scan(&d.ID, &seen, &d.Channels, &d.Bound)
			d.Seen = time.UnixMilli(seen)
			list = append(list, d)
			return err
		})
	})
	return list, err
}
