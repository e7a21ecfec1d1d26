package api

import (
	"flag"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	shared "godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/test/blackbox"
)

var onPostgres = flag.Bool("postgres", false, "keep everything in PostgreSQL instead of files")

// kept is where a server stores its data.
type kept struct{ dir, url string }

// inFiles stores data in files, or in PostgreSQL if all tests are run that way.
func inFiles(t *testing.T) kept {
	t.Helper()
	if *onPostgres {
		return inPostgres(t)
	}
	return kept{dir: t.TempDir()}
}

func inPostgres(t *testing.T) kept {
	t.Helper()
	return kept{t.TempDir(), pgtest.Database(t)}
}

// serve returns the options that start a server on this data.
func (k kept) serve() []blackbox.Option {
	list := []blackbox.Option{blackbox.Dev(), blackbox.Args("--allow-private-urls"), blackbox.In(k.dir)}
	if k.url != "" {
		list = append(list, blackbox.Args("--postgres", k.url, "--node", "n"))
	}
	return list
}

// endpointStore is the store to which endpoints are written.
type endpointStore interface {
	endpoint.Store
	Close() error
}

// endpoints opens the store of endpoints. It must be closed before a server starts, since only one process may open a file.
func (k kept) endpoints(t *testing.T) (store endpointStore) {
	t.Helper()
	var err error
	if k.url == "" {
		store, err = campaigndb.Open(t.Context(), filepath.Join(k.dir, "campaign.db"), campaigndb.Config{})
	} else {
		store, err = shared.Open(t.Context(), shared.Config{URL: k.url})
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}
