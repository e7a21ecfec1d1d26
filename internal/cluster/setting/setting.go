// Package setting is what the settings of apps have in common, be they of sinks, sources, hooks or channels: how they are stored, and how
// every server keeps what runs in step with them.
package setting

import "context"

// Store keeps settings of one kind, by app and name. Several processes may write to the same one: the command line does, beside a running
// server.
type Store[T any] interface {
	All(ctx context.Context) ([]T, error)
	// Update reads an app's settings of a name, or makes empty ones, lets change alter them and writes them, all in one transaction. It fails
	// with access.ErrUnknownApp where the app is missing. others is how many the app has besides.
	Update(ctx context.Context, app, name string, change func(one *T, others int) error) error
	// Delete reports whether there were any.
	Delete(ctx context.Context, app, name string) (bool, error)
	// Watch calls changed within a second of each commit of a change, by any server, until ctx ends.
	Watch(ctx context.Context, changed func()) error
}
