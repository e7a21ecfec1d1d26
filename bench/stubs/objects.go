package stubs

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

// EmptyObjects removes the rows of some tables of a file of objects that no server uses.
func EmptyObjects(ctx context.Context, path string, tables ...string) error {
	s, err := objectdb.Open(ctx, path, objectdb.Config{})
	if err != nil {
		return err
	}
	err = s.DB().Do(ctx, func(c *sqlite.Conn) error {
		for _, table := range tables {
			if err := sqlitex.ExecuteTransient(c, "DELETE FROM "+table, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("empty %s: %w", path, err)
	}
	return nil
}
