package bus

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/messaging/topic"
)

// otherEnd is the server's end of the connections that a line makes, one after the other.
type otherEnd struct {
	t     *testing.T
	conns chan net.Conn
}

func (s *otherEnd) dial() (net.Conn, error) {
	here, there := net.Pipe()
	s.conns <- there
	return here, nil
}

// accept begins a connection and returns the client's lines up to its PING, without CONNECT.
func (s *otherEnd) accept() (net.Conn, *bufio.Reader, []string) {
	s.t.Helper()
	c := <-s.conns
	_, _ = io.WriteString(c, "INFO {}\r\n")
	r := bufio.NewReader(c)
	said := s.until(r, "PING")
	if len(said) == 0 || !strings.HasPrefix(said[0], `CONNECT {`) || !strings.Contains(said[0], `"pass":"secret"`) || !strings.Contains(said[0], `"echo":false`) {
		s.t.Fatalf("the client begins with %q", said)
	}
	return c, r, said[1:]
}

// until returns the client's lines before the line end.
func (s *otherEnd) until(r *bufio.Reader, end string) (said []string) {
	s.t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("after %q: %v", said, err)
		}
		if line = strings.TrimSuffix(line, "\r\n"); line == end {
			return said
		}
		said = append(said, line)
	}
}

// connect connects a line to a server of the test.
func connect(t *testing.T, s *otherEnd) (l *Line, got, lost chan string) {
	t.Helper()
	got, lost = make(chan string, 10), make(chan string, 10)
	l = &Line{name: Mailboxes, wake: make(chan struct{}, 1), done: make(chan struct{}), cfg: LineConfig{
		Got:  func(subject string, data []byte) { got <- subject + " " + string(data) },
		Lost: func() { lost <- "" },
	}}
	var err error
	if l.on, err = connectDirectly(l, Mailboxes, "secret", s.dial); err != nil {
		t.Fatal(err)
	}
	l.ended.Go(l.run)
	return l, got, lost
}

func TestNewConnectionIsToldOfAllBeforeItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &otherEnd{t, make(chan net.Conn, 1)}
		begun := make(chan net.Conn)
		go func() {
			c, _, said := s.accept()
			if len(said) > 0 {
				t.Errorf("at first it subscribes to %q", said)
			}
			_, _ = io.WriteString(c, "PONG\r\n")
			begun <- c
		}()
		l, got, lost := connect(t, s)
		defer l.close()
		c := <-begun
		<-lost
		stays, err := l.Subscribe("r.stays")
		if err != nil {
			t.Fatal(err)
		}
		ends, _ := l.Subscribe("r.ends")
		if err := l.Publish("r.y", []byte("data")); err != nil {
			t.Fatal(err)
		}
		ends.End()
		ends.End()
		r := bufio.NewReader(c)
		if said := s.until(r, "UNSUB 2"); !slices.Equal(said, []string{"SUB r.stays 1", "SUB r.ends 2", "PUB r.y 4", "data"}) {
			t.Errorf("it says %q", said)
		}
		waits := make(chan error)
		go func() { waits <- l.Flush(t.Context()) }()
		s.until(r, "PING")
		_ = c.Close()
		if err := <-waits; !errors.Is(err, topic.ErrUnavailable) {
			t.Errorf("a flush whose connection is lost: %v", err)
		}
		if err := l.Publish("r.y", nil); !errors.Is(err, topic.ErrUnavailable) || l.Dropped() != 1 {
			t.Errorf("a publish without a connection: %v, %d dropped", err, l.Dropped())
		}
		if _, err := l.Subscribe("r.later"); err != nil {
			t.Errorf("what is subscribed to without a connection: %v", err)
		}

		c, r, said := s.accept()
		if !slices.Equal(said, []string{"SUB r.stays 1", "SUB r.later 3"}) {
			t.Errorf("a new connection is told %q", said)
		}
		synctest.Wait()
		if len(lost) > 0 {
			t.Error("it counts before the server has understood it")
		}
		_, _ = io.WriteString(c, "MSG r.stays 1 2\r\nhi\r\nPONG\r\n")
		<-lost
		if m := <-got; m != "r.stays hi" {
			t.Errorf("got %q", m)
		}
		_, _ = io.WriteString(c, "PING\r\n")
		s.until(r, "PONG")
		go func() { waits <- l.Flush(t.Context()) }()
		s.until(r, "PING")
		_, _ = io.WriteString(c, "PONG\r\n")
		if err := <-waits; err != nil {
			t.Errorf("a flush: %v", err)
		}
		stays.End()
		s.until(r, "UNSUB 1")
		_, _ = io.WriteString(c, "-ERR 'Slow Consumer'\r\n")
		<-lost
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &otherEnd{t, make(chan net.Conn, 1)}
		go func() {
			c, r, _ := s.accept()
			_, _ = io.WriteString(c, "PONG\r\n")
			_, _ = io.Copy(io.Discard, r)
		}()
		l, _, _ := connect(t, s)
		defer l.close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Flush(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, topic.ErrUnavailable) {
			t.Errorf("a flush that nobody waits for: %v", err)
		}
		if err := l.Flush(t.Context()); !errors.Is(err, topic.ErrUnavailable) {
			t.Errorf("a flush that nobody answers: %v", err)
		}
	})
}

func TestLineThatIsRefusedSaysWhy(t *testing.T) {
	s := &otherEnd{t, make(chan net.Conn, 1)}
	go func() {
		c, _, _ := s.accept()
		_, _ = io.WriteString(c, "-ERR 'Authorization Violation'\r\n")
	}()
	if _, err := connectDirectly(&Line{name: Mailboxes, wake: make(chan struct{}, 1)}, Mailboxes, "secret", s.dial); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("refused with %v", err)
	}
}

func TestInvalidMessageIsNotSent(t *testing.T) {
	d := &direct{to: &Line{}}
	for _, subject := range []string{"", "r.x y", "r.x\r\nSUB >", "\t"} {
		if err := d.publish(subject, nil); err == nil {
			t.Errorf("%q is published", subject)
		}
		if _, err := d.subscribe(subject); err == nil {
			t.Errorf("%q is subscribed to", subject)
		}
	}
	if err := d.publish("r.x", make([]byte, maxBetweenNodes+1)); !errors.Is(err, topic.ErrUnavailable) || errors.Is(err, errAway) {
		t.Errorf("a message that is too large: %v", err)
	}
}
