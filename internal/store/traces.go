package store

import (
	"path/filepath"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store/sqlite/tracedb"
)

// OpenTraces opens what keeps which notifications this node's traces follow, in its data folder, whatever keeps the notifications.
func OpenTraces(data string) (tracing.Keeper, error) {
	return tracedb.Open(filepath.Join(data, "traces.db"))
}
