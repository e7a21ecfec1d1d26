package pgdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// explained is an error whose text leaves out connection attempts that do not show the cause.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain shortens a connection error. With sslmode=prefer pgx tries each address with TLS and without, and reports both errors. Explain
// drops the error of the TLS attempt if there is another one, and drops repeated errors.
func Explain(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	joined, ok := errors.Unwrap(connect).(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var reasons, tls []string
	for _, attempt := range joined.Unwrap() {
		text := attempt.Error()
		_, isTLS, _ := strings.Cut(text, "tls error: ")
		var answered *pgconn.PgError
		if isTLS != "" && !errors.As(attempt, &answered) {
			tls = append(tls, text)
			continue
		}
		if len(reasons) == 0 || reasons[len(reasons)-1] != text {
			reasons = append(reasons, text)
		}
	}
	if len(reasons) == 0 {
		reasons = tls
	}
	text := fmt.Sprintf("connect to PostgreSQL as user %s, database %s: %s", connect.Config.User, connect.Config.Database, strings.Join(reasons, "; "))
	return &explained{strings.Replace(err.Error(), connect.Error(), text, 1), err}
}
