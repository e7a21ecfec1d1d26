package faults

import (
	"errors"
	"testing"

	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// PostgreSQL releases the lock of a copy that was killed a moment later: a server that starts at once waits for that.
func TestAServerStartsOnceTheLockOfACopyIsReleased(t *testing.T) {
	url := pgtest.Database(t)
	c := connectDatabase(t, url)
	_, err := c.Exec(t.Context(), "SELECT pg_advisory_lock($1)", 0x47647776) // as a copy locks it
	noError(t, err)
	opened := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "second"})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	blackbox.Eventually(t, "the server has a lease", func() error {
		if nodes, err := pgdb.LiveNodes(t.Context(), c); err != nil || len(nodes) == 0 {
			return errors.Join(errors.New("no node has one"), err)
		}
		return nil
	})
	_, err = c.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
	noError(t, err)
	noError(t, <-opened)
}
