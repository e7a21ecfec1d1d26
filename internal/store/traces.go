package store

import (
	"path/filepath"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store/sqlite/tracedb"
)

// OpenTraces opens the file, in this node's data folder, that lists which notifications its traces follow; it is the
// same for every kind of store.
func OpenTraces(data string) (tracing.Keeper, error) {
	return tracedb.Open(filepath.Join(data, "traces.db"))
}
