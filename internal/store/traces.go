package store

import (
	"path/filepath"

	"godwit.dev/godwit/internal/store/sqlite/tracedb"
	"godwit.dev/godwit/internal/tracing"
)

// OpenTraces opens what keeps which notifications this node's traces follow, in its data folder, whatever keeps the notifications.
func OpenTraces(data string) (tracing.Keeper, error) {
	return tracedb.Open(filepath.Join(data, "traces.db"))
}
