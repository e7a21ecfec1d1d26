package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// firstOwn is the first object id of what a database's users make (PostgreSQL, FirstNormalObjectId).
const firstOwn = 16384

// typesOf describes types that a database's users have made: their bases, and the elements of arrays, without domains. Rows are a type, a kind
// (b or e), and the object id.
const typesOf = `WITH RECURSIVE base(root, at) AS (
	SELECT oid, oid FROM pg_type WHERE oid IN (%s)
	UNION ALL SELECT root, t.typbasetype FROM base JOIN pg_type t ON t.oid = at AND t.typtype = 'd'
), element(root, at) AS (
	SELECT root, t.typelem FROM base JOIN pg_type t ON t.oid = at AND t.typtype <> 'd' AND t.typcategory = 'A' AND t.typelem <> 0
	UNION ALL SELECT root, t.typbasetype FROM element JOIN pg_type t ON t.oid = at AND t.typtype = 'd'
)
SELECT root, 'b', at FROM base JOIN pg_type t ON t.oid = at AND t.typtype <> 'd'
UNION ALL SELECT root, 'e', at FROM element JOIN pg_type t ON t.oid = at AND t.typtype <> 'd'`

// own is a type that a database's user has made.
type own struct {
	base    uint32 // what the domain is; of other types the type itself
	element uint32 // of an array; 0: it is none
}

// resolve finds out what the columns are whose types users have made: domains are what they are made of, and arrays have elements. Types keep
// their meaning as long as they exist, so that one look at the catalog is enough.
func (f *feed) resolve(ctx context.Context, rel *relation) error {
	var unknown []string
	for _, c := range rel.columns {
		if _, known := f.types[c.kind]; c.kind >= firstOwn && !known {
			unknown = append(unknown, strconv.FormatUint(uint64(c.kind), 10))
		}
	}
	if len(unknown) > 0 {
		if err := f.learn(ctx, unknown); err != nil {
			return fmt.Errorf("look up the types of table %s.%s: %w", rel.schema, rel.name, err)
		}
	}
	for i := range rel.columns {
		c := &rel.columns[i]
		if t, known := f.types[c.kind]; known {
			c.kind, c.element = t.base, t.element
		}
	}
	return nil
}

func (f *feed) learn(ctx context.Context, kinds []string) error {
	c, err := connect(ctx, f.t, false)
	if err != nil {
		return err
	}
	defer c.close()
	rows, err := c.query(ctx, fmt.Sprintf(typesOf, strings.Join(kinds, ", ")))
	if err != nil {
		return err
	}
	for _, row := range rows {
		root, err := strconv.ParseUint(string(row[0]), 10, 32)
		if err != nil {
			return err
		}
		at, err := strconv.ParseUint(string(row[2]), 10, 32)
		if err != nil {
			return err
		}
		t := f.types[uint32(root)]
		if string(row[1]) == "b" {
			t.base = uint32(at)
		} else {
			t.element = uint32(at)
		}
		f.types[uint32(root)] = t
	}
	return nil
}
