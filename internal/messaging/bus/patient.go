package bus

import (
	"context"
	"net"
	"runtime"
	"sync"
	"time"
)

// maxBacklog is how many bytes may wait to be written before publishers wait.
const maxBacklog = 1 << 20

// keepIdle is the most bytes of a buffer that an idle connection keeps for later writes.
const keepIdle = 64 << 10

// patient is a connection whose writes never wait: a goroutine writes the gathered bytes. The client library writes with its lock held and
// needs that lock to continue reading. The server stops reading while its own output is not read. So in a burst of publishes, client and
// server would wait for each other. Instead, publishers wait for room before they take the lock.
type patient struct {
	net.Conn

	mu      sync.Mutex
	waiting []byte
	spare   []byte
	wake    chan struct{} // has one element when waiting is not empty
	room    chan struct{} // closed whenever waiting was taken
	err     error
	done    chan struct{}
	ended   sync.Once
}

func newPatient(c net.Conn) *patient {
	p := &patient{Conn: c, wake: make(chan struct{}, 1), room: make(chan struct{}), done: make(chan struct{})}
	go p.write() // ends with Close
	return p
}

func (p *patient) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	p.waiting = append(p.waiting, b...)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *patient) write() {
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		runtime.Gosched() // simultaneous publishers share the write, and work on the mailbox comes first
		p.mu.Lock()
		out := p.waiting
		p.waiting, p.spare = p.spare[:0], nil
		close(p.room)
		p.room = make(chan struct{})
		p.mu.Unlock()
		_, err := p.Conn.Write(out)
		p.mu.Lock()
		p.keep(out)
		p.err = err
		p.mu.Unlock()
		if err != nil {
			_ = p.Close() // the reader finds the connection closed and reconnects
			return
		}
	}
}

// keep keeps the buffer of the last write for the next one. While no bytes wait to be written, it keeps at most keepIdle bytes. The lock is
// held.
func (p *patient) keep(written []byte) {
	most := 2 * maxBacklog
	if len(p.waiting) == 0 {
		if most = keepIdle; cap(p.waiting) > most {
			p.waiting = nil
		}
	}
	if cap(written) <= most {
		p.spare = written
	}
}

// await waits until there is room to write.
func (p *patient) await(ctx context.Context) error {
	for {
		p.mu.Lock()
		full, room := len(p.waiting) > maxBacklog && p.err == nil, p.room
		p.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-room:
		case <-p.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// backlog is how many bytes wait to be written.
func (p *patient) backlog() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// Close ends the connection.
func (p *patient) Close() error {
	p.ended.Do(func() { close(p.done) })
	p.mu.Lock()
	if p.err == nil {
		p.err = net.ErrClosed
	}
	p.mu.Unlock()
	return p.Conn.Close()
}

// SetWriteDeadline does nothing: no write waits.
func (p *patient) SetWriteDeadline(time.Time) error { return nil }
