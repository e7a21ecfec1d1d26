package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// publish makes sure that the publication has the tables. anew is set where no change of a table was read under it yet.
func (f *feed) publish(ctx context.Context, anew bool) error {
	_, exists, err := f.c.one(ctx, "SELECT 1 FROM pg_publication WHERE pubname = "+literal(f.publication))
	if err != nil {
		return err
	}
	switch {
	case !exists && !f.own:
		return fmt.Errorf("the publication %s does not exist: %s", f.publication, f.creates(f.tables))
	case !exists && !anew && len(f.tables) > 0:
		return fmt.Errorf("the publication %s is gone: changes of tables since then cannot be read; godwit source resync %s makes it anew", f.publication, f.t.Name)
	case !exists:
		if err := f.run(ctx, f.creates(nil), "the user needs GRANT CREATE ON DATABASE"); err != nil {
			return err
		}
	}
	missing, err := f.missing(ctx, f.c)
	if err != nil || len(missing) == 0 || !f.own {
		return errors.Join(err, f.unpublished(missing))
	}
	return f.complete(ctx)
}

// complete adds the tables that the publication lacks.
func (f *feed) complete(ctx context.Context) error {
	if err := f.run(ctx, f.viaRoot(), "the user must own the publication"); err != nil {
		return err
	}
	missing, err := f.missing(ctx, f.c)
	if err != nil {
		return err
	}
	for _, t := range missing {
		if err := f.run(ctx, f.adds(t), "the user must own the table and have USAGE of its schema"); err != nil {
			return err
		}
	}
	return nil
}

// viaRoot makes the publication tell changes of partitions as changes of the partitioned table, which the mapping names.
func (f *feed) viaRoot() string {
	return "ALTER PUBLICATION " + quoted(f.publication) + " SET (publish_via_partition_root = true)"
}

func (f *feed) adds(t *Table) string {
	return "ALTER PUBLICATION " + quoted(f.publication) + " ADD TABLE " + t.qualified()
}

// missing returns the tables whose changes the publication does not tell under their names.
func (f *feed) missing(ctx context.Context, c *conn) (list []*Table, err error) {
	if len(f.tables) == 0 {
		return nil, nil
	}
	rows, err := c.query(ctx, "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = "+literal(f.publication))
	for i := range f.tables {
		schema, name := f.tables[i].names()
		if !slices.ContainsFunc(rows, func(row [][]byte) bool { return string(row[0]) == schema && string(row[1]) == name }) {
			list = append(list, &f.tables[i])
		}
	}
	return list, err
}

// unpublished says what to do about the first of the tables that are missing.
func (f *feed) unpublished(missing []*Table) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the publication %s does not have the table %s: %s; if it is partitioned: %s", f.publication, missing[0].full(), f.adds(missing[0]), f.viaRoot())
}

// creates is the statement that makes the publication.
func (f *feed) creates(tables []Table) string {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].qualified()
	}
	sql := "CREATE PUBLICATION " + quoted(f.publication)
	if len(names) > 0 {
		sql += " FOR TABLE " + strings.Join(names, ", ")
	}
	return sql + " WITH (publish_via_partition_root = true)"
}
