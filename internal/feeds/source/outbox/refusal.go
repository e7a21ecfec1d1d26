package outbox

import (
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/feeds/source/dbserver"
	"godwit.dev/godwit/internal/sending/foreign"
)

// refusal is an error that a database returned. The log has its code alone, since the text may have a row's values.
type refusal struct {
	text, code string
	denied     bool // for want of rights
	err        error
}

func (s *refusal) Error() string { return s.text }
func (s *refusal) Unwrap() error { return s.err }

// SQLState is the code by which foreign.Cause names the error.
func (s *refusal) SQLState() string { return s.code }

// denials are the numbers with which a MySQL refuses a database, a table, a column or a routine to a user.
var denials = map[uint16]bool{1044: true, 1142: true, 1143: true, 1370: true}

// explain shortens an error to what the database says.
func explain(err error) error {
	var known *refusal
	var pg *pgconn.PgError
	var my *driver.MySQLError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &pg):
		return &refusal{text: fmt.Sprintf("PostgreSQL says: %s (%s)", pg.Message, pg.Code), code: pg.Code, denied: pg.Code == "42501", err: err}
	case errors.As(err, &my):
		return &refusal{text: err.Error(), code: string(my.SQLState[:]), denied: denials[my.Number], err: err}
	}
	return dbserver.Unreached(err)
}

// needs adds the rights that a user lacks to an error.
func needs(err error, table string) error {
	err = explain(err)
	if s := new(refusal); errors.As(err, &s) && s.denied {
		return fmt.Errorf("%w. The source's user needs GRANT SELECT, UPDATE, DELETE ON %s", err, table)
	}
	return err
}

// own is an error in words of our own, which the log may have.
func own(format string, a ...any) error { return foreign.Own(fmt.Sprintf(format, a...)) }
