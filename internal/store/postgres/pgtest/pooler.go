package pgtest

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler shares a server's sessions as PgBouncer does: it gives a transaction the session that became free last, or gives a client one
// session for the whole connection.
type pooler struct {
	url            string
	perTransaction bool

	mu   sync.Mutex
	free []*pgconn.HijackedConn
}

// Pooler listens for clients of a database and returns its address. It works like PgBouncer with pool_mode=session or, if perTransaction,
// with pool_mode=transaction, where each transaction gets another session of the server.
func Pooler(t testing.TB, url string, perTransaction bool) (address string) {
	t.Helper()
	p := &pooler{url: url, perTransaction: perTransaction}
	dir := t.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.6432"))
	if err != nil {
		t.Skip(err) // the path is too long
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				p.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
		for _, s := range p.free {
			s.Conn.Close()
		}
	})
	return "postgres:///postgres?user=postgres&sslmode=disable&port=6432&host=" + dir
}

func (p *pooler) serve(c net.Conn) {
	client := pgproto3.NewBackend(c, c)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.BackendKeyData{SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if client.Flush() != nil {
		return
	}
	var session *pgconn.HijackedConn
	defer func() { p.give(session) }()
	for {
		asked, err := client.Receive()
		if err != nil {
			return
		}
		if _, bye := asked.(*pgproto3.Terminate); bye {
			return
		}
		if session == nil {
			if session = p.take(); session == nil {
				return
			}
		}
		session.Frontend.Send(asked)
		switch asked.(type) {
		case *pgproto3.Sync, *pgproto3.Query:
			idle, err := answer(client, session.Frontend)
			if err != nil {
				return
			}
			if idle && p.perTransaction {
				p.give(session)
				session = nil
			}
		}
	}
}

// answer forwards the server's answer, and reports whether the transaction is over.
func answer(client *pgproto3.Backend, server *pgproto3.Frontend) (idle bool, err error) {
	if err := server.Flush(); err != nil {
		return false, err
	}
	for {
		m, err := server.Receive()
		if err != nil {
			return false, err
		}
		client.Send(m)
		if ready, last := m.(*pgproto3.ReadyForQuery); last {
			return ready.TxStatus == 'I', client.Flush()
		}
	}
}

func (p *pooler) take() *pgconn.HijackedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	c, err := pgconn.Connect(context.Background(), p.url)
	if err != nil {
		return nil
	}
	s, err := c.Hijack()
	if err != nil {
		return nil
	}
	return s
}

func (p *pooler) give(s *pgconn.HijackedConn) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}
