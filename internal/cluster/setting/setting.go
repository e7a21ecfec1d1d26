// Package setting has the common parts of the settings of sinks, sources, hooks and channels: how they are stored, and how every server
// keeps its running work in line with them.
package setting

import "context"

// Store stores settings of one kind, by app and name. Several processes may write to it: the command line does so beside a running server.
type Store[T any] interface {
	All(ctx context.Context) ([]T, error)
	// Update reads an app's settings of a name (empty ones if there are none), applies change and writes them, all in one transaction. It
	// fails with access.ErrUnknownApp if the app does not exist. others is the number of the app's other settings.
	Update(ctx context.Context, app, name string, change func(one *T, others int) error) error
	// Delete reports whether the settings existed. If check fails, it does nothing.
	Delete(ctx context.Context, app, name string, check func(one *T) error) (bool, error)
	// Watch calls changed within a second after any server commits a change, until ctx ends.
	Watch(ctx context.Context, changed func()) error
}
