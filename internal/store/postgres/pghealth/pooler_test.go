package pghealth_test

import (
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// sessions are those that a pooler shares among its clients, the last used first.
type sessions struct {
	mu   sync.Mutex
	list []*pgconn.HijackedConn
}

func (s *sessions) take() (c *pgconn.HijackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.list[len(s.list)-1]
	s.list = s.list[:len(s.list)-1]
	return c
}

func (s *sessions) give(c *pgconn.HijackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, c)
}

// pooler listens for clients of a database and gives each of their transactions one of a few sessions, as PgBouncer does in
// transaction mode.
func pooler(t testing.TB, database string) (address string) {
	t.Helper()
	var s sessions
	for range 4 {
		c, err := pgconn.Connect(t.Context(), database)
		ok(t, err)
		h, err := c.Hijack()
		ok(t, err)
		s.give(h)
		t.Cleanup(func() { h.Conn.Close() })
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer client.Close()
				_ = s.serve(pgproto3.NewBackend(client, client))
			})
		}
	})
	return "postgres://someone@" + l.Addr().String() + "/any?sslmode=disable"
}

func (s *sessions) serve(client *pgproto3.Backend) error {
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	var own *pgconn.HijackedConn
	for {
		m, err := client.Receive()
		if err != nil {
			return err
		}
		if _, ends := m.(*pgproto3.Terminate); ends {
			return nil
		}
		if own == nil {
			own = s.take()
		}
		own.Frontend.Send(m)
		_, simple := m.(*pgproto3.Query)
		if _, sync := m.(*pgproto3.Sync); !sync && !simple {
			continue
		}
		status, err := relay(own.Frontend, client)
		if err != nil {
			return err
		}
		if status == 'I' {
			s.give(own)
			own = nil
		}
	}
}

// relay hands a client what the server answers.
func relay(server *pgproto3.Frontend, client *pgproto3.Backend) (status byte, err error) {
	if err := server.Flush(); err != nil {
		return 0, err
	}
	for {
		m, err := server.Receive()
		if err != nil {
			return 0, err
		}
		client.Send(m)
		if r, ready := m.(*pgproto3.ReadyForQuery); ready {
			return r.TxStatus, client.Flush()
		}
	}
}
