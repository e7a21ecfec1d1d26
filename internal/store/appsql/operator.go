package appsql

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/sqltx"
)

func readOperator(row sqltx.Row) (k access.OperatorKey, err error) {
	var hash []byte
	var created int64
	if err := row.Scan(&k.ID, &hash, &created); err != nil {
		return k, err
	}
	if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return k, errors.New("the operator key's hash is damaged")
	}
	k.CreatedAt = fromMillis(created)
	return k, nil
}

const insertOperator = "INSERT INTO operator (one, id, hash, created_at) VALUES (1, $1, $2, $3)"

// AddOperator implements access.Store.
func (s *Store) AddOperator(ctx context.Context, k access.OperatorKey) error {
	err := s.db.Change(ctx, "store the operator key", func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		_, err := tx.Exec(ctx, insertOperator, k.ID, k.Hash[:], k.CreatedAt.UnixMilli())
		return true, err
	})
	return s.taken(err, "operator key")
}

// ReplaceOperator implements access.Store.
func (s *Store) ReplaceOperator(ctx context.Context, former string, k access.OperatorKey) error {
	return s.db.Change(ctx, "replace the operator key", func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		query, args := "DELETE FROM operator", []any{}
		if former != "" {
			query, args = query+" WHERE id = $1", []any{former}
		}
		n, err := tx.Exec(ctx, query, args...)
		if err == nil && n == 0 && former != "" {
			err = access.ErrOperatorChanged
		}
		if err == nil {
			_, err = tx.Exec(ctx, insertOperator, k.ID, k.Hash[:], k.CreatedAt.UnixMilli())
		}
		return true, err
	})
}
