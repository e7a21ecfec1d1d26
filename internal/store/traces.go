package store

import (
	"path/filepath"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store/sqlite/tracedb"
)

// OpenTraces opens the file in this node's data folder that lists which notifications are traced; every kind of store uses the same file.
func OpenTraces(data string) (tracing.Keeper, error) {
	return tracedb.Open(filepath.Join(data, "traces.db"))
}
