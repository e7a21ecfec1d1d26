package bus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
)

// direct carries a line to the server within the process and speaks its protocol: a message passes one goroutine less than through the
// client library, and no channel. A subscription takes 64 bytes here, where the library uses 268 for callbacks, queues and counts that a
// line does not need: while nodes of the release before are connected, there is one subscription for each recipient.
type direct struct {
	dial  func() (net.Conn, error)
	hello []byte // CONNECT
	to    *Line

	mu     sync.Mutex
	conn   *patient // nil while there is none
	all    wanted   // the ring of subscriptions
	ids    uint64
	asked  []chan error // pending PINGs, in their order
	closed bool

	done  chan struct{}
	ended sync.WaitGroup
}

// wanted is a subscription. All subscriptions form a ring, so that a new connection can subscribe to them again.
type wanted struct {
	by         *direct
	prev, next *wanted // nil: it has ended
	id         uint64
	subject    string
}

// readRoom is the most bytes of a line from the server and of one read. INFO is the longest line.
const readRoom = 32 << 10

// connectDirectly connects a line, and keeps it connected until close.
func connectDirectly(l *Line, user, password string, dial func() (net.Conn, error)) (*direct, error) {
	hello, err := json.Marshal(map[string]any{
		"verbose": false, "pedantic": false, "echo": false, "headers": false, "protocol": 1, "lang": "godwit", "name": "godwit" + l.name,
		"user": user, "pass": password,
	})
	if err != nil {
		return nil, err
	}
	d := &direct{dial: dial, hello: append(append([]byte("CONNECT "), hello...), "\r\n"...), to: l, done: make(chan struct{})}
	d.all.prev, d.all.next = &d.all, &d.all
	r, err := d.connect()
	if err != nil {
		return nil, err
	}
	d.ended.Go(func() { d.run(r) })
	return d, nil
}

// run reads operations, and reconnects when the connection is lost.
func (d *direct) run(r *bufio.Reader) {
	for {
		if r != nil {
			d.read(r)
			d.away()
		}
		select {
		case <-d.done:
			return
		case <-time.After(reconnectWait):
		}
		r, _ = d.connect() // tried again
	}
}

// connect sends the CONNECT operation and all subscriptions, and returns once the server has handled them.
func (d *direct) connect() (*bufio.Reader, error) {
	c, err := d.dial()
	if err != nil {
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(dialPatience)) // a pipe has deadlines
	r := bufio.NewReaderSize(c, readRoom)
	if op, err := readOperation(r); err != nil || op.verb != opInfo {
		_ = c.Close()
		return nil, errors.Join(errors.New("the server does not begin"), err)
	}
	known := make(chan error, 1)
	if err := d.greet(c, known); err != nil {
		d.away()
		return nil, err
	}
	for {
		op, err := readOperation(r)
		if err == nil && op.verb == opError {
			err = errors.New(op.text)
		}
		if err != nil {
			d.away()
			return nil, err
		}
		d.handle(op)
		select {
		case err := <-known:
			_ = c.SetReadDeadline(time.Time{})
			d.to.lost()
			return r, err
		default:
		}
	}
}

// greet writes the first operations of a connection. known gets an element when the server has handled them.
func (d *direct) greet(c net.Conn, known chan error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close()
		return errClosed
	}
	d.conn = newPatient(c)
	b := append([]byte(nil), d.hello...)
	for w := d.all.next; w != &d.all; w = w.next {
		b = appendSubscribe(b, w.subject, w.id)
	}
	d.asked = append(d.asked, known)
	return d.write(append(b, "PING\r\n"...))
}

func (d *direct) read(r *bufio.Reader) {
	for {
		op, err := readOperation(r)
		if err != nil {
			return
		}
		d.handle(op)
	}
}

func (d *direct) handle(op operation) {
	switch op.verb {
	case opMessage:
		d.to.take(op.subject, op.data)
	case opError: // the server ends the connection after most errors
		d.to.lost()
	case opPing:
		d.mu.Lock()
		_ = d.write([]byte("PONG\r\n")) // a failed write ends the connection
		d.mu.Unlock()
	case opPong:
		d.mu.Lock()
		if len(d.asked) > 0 {
			d.asked[0] <- nil
			d.asked = d.asked[1:]
		}
		d.mu.Unlock()
	}
}

// write queues bytes and never waits. d.mu is held, so that the pieces stay together.
func (d *direct) write(pieces ...[]byte) error {
	if d.conn == nil {
		return errAway
	}
	for _, b := range pieces {
		if _, err := d.conn.Write(b); err != nil {
			return errAway
		}
	}
	return nil
}

// away records that there is no connection.
func (d *direct) away() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
	for _, known := range d.asked {
		known <- errAway
	}
	d.asked = nil
}

func (d *direct) publish(subject string, data []byte) error {
	if err := errors.Join(checkSubject(subject), checkSize(data)); err != nil {
		return err
	}
	var room [128]byte
	head := appendPublish(room[:0], subject, len(data))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil && d.conn.backlog() > maxLineBytes {
		return errAway
	}
	return d.write(head, data, []byte("\r\n"))
}

// subscribe adds a subscription. Without a connection it takes effect with the next one.
func (d *direct) subscribe(subject string) (interface{ End() }, error) {
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	var room [128]byte
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	d.ids++
	w := &wanted{by: d, prev: d.all.prev, next: &d.all, id: d.ids, subject: subject}
	w.prev.next, d.all.prev = w, w
	_ = d.write(appendSubscribe(room[:0], subject, w.id))
	return w, nil
}

// End ends it.
func (w *wanted) End() {
	d := w.by
	var room [32]byte
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next == nil {
		return
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
	_ = d.write(appendUnsubscribe(room[:0], w.id)) // if the write fails, a new connection does not subscribe to it again
}

func (d *direct) flush(ctx context.Context) error {
	known := make(chan error, 1)
	d.mu.Lock()
	err := d.write([]byte("PING\r\n"))
	if err == nil {
		d.asked = append(d.asked, known)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-known:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", topic.ErrUnavailable, context.Cause(ctx))
	}
}

func (d *direct) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	close(d.done)
	d.away()
	d.ended.Wait()
}
