package sources

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// inOutbox is the change of databases with an outbox.
type inOutbox struct{}

func (inOutbox) change(_ *rand.Rand, to, title string) string {
	return fmt.Sprintf(`INSERT INTO godwit_outbox (body) VALUES ('{"to":"%s","title":"%s"}');`, to, title)
}

// postgres connects to a PostgreSQL.
type postgres struct{ url string }

func (p postgres) connect(ctx context.Context) (session, error) {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, err
	}
	return pgSession{c}, nil
}

type pgSession struct{ *pgx.Conn }

func (s pgSession) exec(ctx context.Context, sql string) error {
	_, err := s.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (s pgSession) exists(ctx context.Context, query string) (found bool, err error) {
	err = s.QueryRow(ctx, "SELECT EXISTS ("+query+")").Scan(&found)
	return found, err
}

func (s pgSession) lost() bool { return s.IsClosed() }
func (s pgSession) close()     { _ = s.Close(context.Background()) }

// mysql connects to a MySQL.
type mysql struct {
	inOutbox
	*sql.DB
}

func (m mysql) connect(ctx context.Context) (session, error) {
	c, err := m.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return mySession{c}, nil
}

type mySession struct{ *sql.Conn }

func (s mySession) exec(ctx context.Context, text string) error {
	_, err := s.ExecContext(ctx, text)
	return err
}

func (s mySession) exists(ctx context.Context, query string) (found bool, err error) {
	err = s.QueryRowContext(ctx, "SELECT EXISTS ("+query+")").Scan(&found)
	return found, err
}

func (s mySession) lost() bool { return s.PingContext(context.Background()) != nil }
func (s mySession) close()     { _ = s.Close() }

// file opens a SQLite file.
type file struct {
	inOutbox
	path string
	wal  bool // it has a write-ahead log instead of a rollback journal
}

func (f file) connect(context.Context) (session, error) {
	flags := lite.OpenReadWrite | lite.OpenCreate
	if f.wal {
		flags |= lite.OpenWAL
	}
	c, err := lite.OpenConn(f.path, flags)
	if err != nil {
		return nil, err
	}
	return liteSession{c}, nil
}

var comment = regexp.MustCompile("(?m)^--.*$")

type liteSession struct{ *lite.Conn }

func (s liteSession) exec(ctx context.Context, text string) error {
	defer s.SetInterrupt(s.SetInterrupt(ctx.Done()))
	for _, one := range strings.SplitAfter(comment.ReplaceAllString(text, ""), ";") {
		if strings.Trim(one, "; \n") == "" {
			continue
		}
		if err := sqlitex.ExecuteTransient(s.Conn, one, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s liteSession) exists(_ context.Context, query string) (found bool, err error) {
	err = sqlitex.ExecuteTransient(s.Conn, query, &sqlitex.ExecOptions{ResultFunc: func(*lite.Stmt) error { found = true; return nil }})
	return found, err
}

func (liteSession) lost() bool { return false }
func (s liteSession) close()   { _ = s.Close() }
