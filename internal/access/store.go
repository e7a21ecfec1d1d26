package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// Errors of managing apps and keys. Wrapped, never bare.
var (
	// ErrExists: there is an app or key of this name already.
	ErrExists = errors.New("exists already")
	// ErrUnknownKey: the app has no key with this id.
	ErrUnknownKey = errors.New("no such key")
	// ErrUnknownService: the service has no settings.
	ErrUnknownService = errors.New("no such service")
	// ErrUnknownCategory: the category has no settings.
	ErrUnknownCategory = errors.New("nothing is said of this category")
)

// StoredKey is the stored form of an API key: its secret only as a hash.
type StoredKey struct {
	Key
	Hash [sha256.Size]byte
}

// Snapshot is all contents of a store, read at one moment.
type Snapshot struct {
	Apps []App
	Keys []StoredKey
	// Erasing are deleted apps whose data is not erased yet. There may be a new app of the same name.
	Erasing []string
}

// Store keeps apps and API keys. Several processes may write to the same one: the command line does, beside a
// running server.
type Store interface {
	Load(ctx context.Context) (Snapshot, error)
	// Watch calls changed, from the goroutine that called Watch, within a second after any process commits a change. It
	// returns when ctx ends.
	Watch(ctx context.Context, changed func()) error

	// CreateApp fails with ErrExists where there is one of this name.
	CreateApp(ctx context.Context, app App) error
	// UpdateApp reads the app, lets change alter it, and writes it, all in one transaction.
	UpdateApp(ctx context.Context, name string, change func(*App) error) error
	// DeleteApp deletes the app and its keys, and notes that its data is to be erased.
	DeleteApp(ctx context.Context, name string) error
	// AppErased ends that note.
	AppErased(ctx context.Context, name string) error

	// CreateKey fails with ErrUnknownApp where the app is missing and with ErrExists where the id is taken.
	CreateKey(ctx context.Context, key StoredKey) error
	// DeleteKey deletes a key of this app and no other's.
	DeleteKey(ctx context.Context, app, id string) error
	// TouchKeys records when keys were last used, by their ids.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}
