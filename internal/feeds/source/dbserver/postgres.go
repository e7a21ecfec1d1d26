package dbserver

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/feeds/source"
)

// PostgreSQL returns what URLs of a PostgreSQL may have, with an example and parameters beside those of all its kinds.
func PostgreSQL(example string, parameters ...string) *Server {
	return &Server{
		Label: "PostgreSQL", Flag: "postgres", Schemes: []string{"postgres", "postgresql"}, Example: example, Socket: "host", Port: "5432",
		Modes:      []string{"disable", "prefer", "require", "verify-ca", "verify-full"},
		Parameters: append([]string{"user", "target_session_attrs", "application_name"}, parameters...),
	}
}

// PostgresConfig returns how to connect to a PostgreSQL, with settings of the session. Nothing of it comes from the environment or from files of
// this machine.
func PostgresConfig(t *source.Target, session map[string]string) (*pgconn.Config, error) {
	damaged := errors.New("the URL of PostgreSQL is damaged") // it was checked when it was set
	u, err := url.Parse(t.Values.Text(FieldURL))
	if err != nil {
		return nil, damaged
	}
	q, ca := u.Query(), t.Values.Text(FieldCA)
	if m := Mode(q, ca); m != "" {
		q.Set("sslmode", m)
	}
	u.RawQuery = q.Encode()
	cfg, err := pgconn.ParseConfig(u.String())
	if err != nil {
		return nil, damaged
	}
	cfg.Password = t.Values.Text(FieldPassword)
	cfg.RuntimeParams = session
	cfg.RuntimeParams["application_name"] = "godwit source " + t.Name
	if name := q.Get("application_name"); name != "" {
		cfg.RuntimeParams["application_name"] = name
	}
	cfg.OnNotice, cfg.ConnectTimeout, cfg.DialFunc = nil, DialWithin, Dialer(t)
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // the dialer looks up
	secure := []*pgconn.FallbackConfig{{TLSConfig: cfg.TLSConfig}}
	for _, f := range append(secure, cfg.Fallbacks...) {
		if f.TLSConfig != nil {
			f.TLSConfig.Certificates, f.TLSConfig.GetClientCertificate, f.TLSConfig.RootCAs = nil, nil, Pool(ca)
		}
	}
	return cfg, nil
}

// Unconverted lets the bytes of a database of the encoding SQL_ASCII through as they are: they have no encoding, so the server would refuse to
// convert some, and with them all that is read at once.
func Unconverted(ctx context.Context, pg *pgconn.PgConn) error {
	if pg.ParameterStatus("server_encoding") != "SQL_ASCII" {
		return nil
	}
	_, err := pg.Exec(ctx, "SET client_encoding = 'SQL_ASCII'").ReadAll()
	return err
}

// unreached is an error of connecting without what the source's own settings say, so that its cause is not cut off.
type unreached struct {
	text string
	err  error
}

func (e *unreached) Error() string { return e.text }
func (e *unreached) Unwrap() error { return e.err }

// Unreached shortens an error of connecting to a PostgreSQL to its cause. Others stay as they are.
func Unreached(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	_, cause, _ := strings.Cut(connect.Error(), "`:")
	var private *urlguard.PrivateError
	if errors.As(err, &private) { // once, and not with each address
		cause = private.Plain()
	}
	return &unreached{"connect to PostgreSQL: " + strings.TrimSpace(cause), err}
}
