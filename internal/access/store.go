package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// Errors of managing apps and keys. Functions return them wrapped.
var (
	// ErrExists: an app or key of this name exists already.
	ErrExists = errors.New("exists already")
	// ErrUnknownKey: the app has no key with this id.
	ErrUnknownKey = errors.New("no such key")
	// ErrUnknownService: the service has no settings.
	ErrUnknownService = errors.New("no such service")
	// ErrNoBatch: the group has no batching interval.
	ErrNoBatch = errors.New("the group has no batching interval of its own")
	// ErrUnknownCategory: the category has no settings.
	ErrUnknownCategory = errors.New("nothing is said of this category")
)

// StoredKey is the stored form of an API key, with a hash of its secret.
type StoredKey struct {
	Key
	Hash [sha256.Size]byte
}

// Snapshot is the whole content of a store at one moment.
type Snapshot struct {
	Apps []App
	Keys []StoredKey
	// Operator is the operator key; nil: there is none.
	Operator *OperatorKey
	// Erasing are deleted apps whose data is not yet erased. There may be a new app of the same name.
	Erasing []string
}

// Store stores apps and API keys. Several processes may write to it: the command line does so beside a running server.
type Store interface {
	Load(ctx context.Context) (Snapshot, error)
	// Watch calls changed, from the goroutine that called Watch, within a second after any process commits a change. It
	// returns when ctx ends.
	Watch(ctx context.Context, changed func()) error

	// CreateApp fails with ErrExists if there is an app of this name.
	CreateApp(ctx context.Context, app App) error
	// UpdateApp reads an app, applies change, and writes it, all in one transaction.
	UpdateApp(ctx context.Context, name string, change func(*App) error) error
	// DeleteApp deletes the app and its keys, and records that its data must be erased. If check is not nil and fails, it does nothing.
	DeleteApp(ctx context.Context, name string, check func(*App) error) error
	// AppErased ends that note.
	AppErased(ctx context.Context, name string) error

	// CreateKey fails with ErrUnknownApp if the app does not exist, and with ErrExists if the id is in use.
	CreateKey(ctx context.Context, key StoredKey) error
	// DeleteKey deletes a key of this app only.
	DeleteKey(ctx context.Context, app, id string) error
	// AddOperator stores the operator key. It fails with ErrExists if there is one.
	AddOperator(ctx context.Context, k OperatorKey) error
	// ReplaceOperator replaces the operator key with the id former; empty: any, or none. It fails with ErrOperatorChanged if another key is
	// stored.
	ReplaceOperator(ctx context.Context, former string, k OperatorKey) error
	// TouchKeys stores when keys were last used, by key id.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}
