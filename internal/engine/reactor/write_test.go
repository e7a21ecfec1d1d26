package reactor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// pump writes numbered records as fast as the connection takes them: a head of its own and a tail shared by all.
type pump struct {
	*fake
	c       *Conn
	tail    []byte
	next    int
	total   int
	behind  chan struct{} // a write was refused for the first time
	refused int
}

func newPump(c *Conn, total, size int) *pump {
	p := &pump{fake: newFake(), c: c, total: total, tail: bytes.Repeat([]byte{'t'}, size), behind: make(chan struct{})}
	p.data = func(b []byte) (int, error) { p.run(); return len(b), nil }
	p.drained = p.run
	return p
}

func (p *pump) run() {
	for p.next < p.total {
		head := binary.BigEndian.AppendUint32(nil, uint32(p.next))
		if !p.c.Write(head, p.tail) {
			if p.refused++; p.refused == 1 {
				close(p.behind)
			}
			return
		}
		clear(head) // it was only borrowed
		p.next++
	}
	p.c.CloseAfterFlush(nil)
}

// TestSlowReaderGetsEveryByteInOrder lets a client fall far behind before it reads: queued writes, and those refused and written again,
// arrive whole and in order, whether tails are shared or copied.
func TestSlowReaderGetsEveryByteInOrder(t *testing.T) {
	for _, size := range []int{100, 5000} {
		eachDriver(t, Config{Loops: 1, QueueBytes: 100 << 10}, func(t *testing.T, h *harness) {
			pumps := make(chan *pump, 1)
			total := 6 << 20 / (size + 4)
			addr := h.handle(func(c *Conn) Handler {
				p := newPump(c, total, size)
				pumps <- p
				return p
			})
			c := h.dial(addr, smallWindow)
			if _, err := c.Write([]byte("go")); err != nil {
				t.Fatal(err)
			}
			p := wait(t, pumps, "the connection")
			wait(t, p.behind, "a refused write")
			record, r := make([]byte, 4+size), bufio.NewReaderSize(c, 32<<10)
			for i := range total {
				if _, err := io.ReadFull(r, record); err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
				if got := int(binary.BigEndian.Uint32(record)); got != i || !bytes.Equal(record[4:], p.tail) {
					t.Fatalf("record %d is %d, or its tail is damaged", i, got)
				}
			}
			if n, err := r.Read(record); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after the last record: %d bytes, %v; want the end", n, err)
			}
			c.Close()
			wait(t, p.closed, "Closed")
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	const limit = 64 << 10
	eachDriver(t, Config{QueueBytes: limit}, func(t *testing.T, h *harness) {
		conns := make(chan *Conn, 1)
		f := newFake()
		addr := h.handle(func(c *Conn) Handler { conns <- c; return f })
		h.dial(addr, smallWindow) // and never reads
		c := wait(t, conns, "the connection")
		piece := make([]byte, 4000)
		for i := 0; c.Write(piece[:4], piece); i++ {
			if q := c.Queued(); q > limit+1000 { // TLS adds a little to the bytes that the limit counts
				t.Fatalf("%d bytes queued, the limit is %d", q, limit)
			}
			if i > 100_000 {
				t.Fatal("the socket takes everything")
			}
		}
		if c.Queued() == 0 {
			t.Error("a write was refused although nothing is queued")
		}
		if got := h.r.Stats().Queued; got != int64(c.Queued()) {
			t.Errorf("the reactor counts %d queued bytes, the connection %d", got, c.Queued())
		}
		c.Abort(io.ErrShortWrite)
		if err := wait(t, f.closed, "Closed"); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("closed because of %v", err)
		}
		if c.Write([]byte("x"), nil) {
			t.Error("a closed connection takes a write")
		}
	})
}

func TestEmptyQueueTakesOneWriteOfAnySize(t *testing.T) {
	eachDriver(t, Config{QueueBytes: 1000}, func(t *testing.T, h *harness) {
		big := make([]byte, 8<<20)
		for i := range big {
			big[i] = byte(i >> 8)
		}
		wrote := make(chan [2]bool, 1)
		addr := h.handle(func(c *Conn) Handler {
			wrote <- [2]bool{c.Write(nil, big), c.Write([]byte("more"), nil)}
			return newFake()
		})
		c := h.dial(addr, smallWindow)
		if got := wait(t, wrote, "the writes"); got != [2]bool{true, false} {
			t.Fatalf("the two writes were taken: %v, want the first only", got)
		}
		if !bytes.Equal(readFull(t, c, len(big)), big) {
			t.Error("the bytes differ")
		}
	})
}

// TestAnswerReachesAPeerThatClosedItsSide sends a request and half-closes at once, as netcat does.
func TestAnswerReachesAPeerThatClosedItsSide(t *testing.T) {
	eachDriver(t, Config{}, func(t *testing.T, h *harness) {
		answer := make([]byte, 8<<20)
		f := newFake()
		addr := h.handle(func(c *Conn) Handler {
			f.data = func(b []byte) (int, error) { c.Write(nil, answer); return len(b), nil }
			return f
		})
		c := h.dial(addr)
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readFull(t, c, len(answer))
		if err := wait(t, f.closed, "Closed"); !errors.Is(err, io.EOF) {
			t.Errorf("closed because of %v, want io.EOF", err)
		}
	})
}

func TestBudgetClosesTheLargestQueuesFirst(t *testing.T) {
	eachDriver(t, Config{Loops: 2, QueueBytes: 16 << 20, TotalBytes: 12 << 20}, func(t *testing.T, h *harness) {
		type end struct {
			i   int
			err error
		}
		conns, ends := make(chan *Conn, 1), make(chan end, 3)
		var all [3]*Conn
		for i := range all {
			addr := h.handle(func(c *Conn) Handler {
				f := &fake{closed: make(chan error, 1)}
				conns <- c
				return closeFunc{f, func(err error) { ends <- end{i, err} }}
			})
			h.dial(addr, smallWindow)
			all[i] = wait(t, conns, "a connection")
		}
		fill := func(c *Conn, n int) { // until n bytes are queued beyond what the kernel takes
			for c.Queued() < n {
				if !c.Write(nil, make([]byte, min(1<<20, n))) {
					return
				}
			}
		}
		fill(all[0], 1<<20)
		fill(all[1], 6<<20)
		fill(all[2], 7<<20) // too much
		got := wait(t, ends, "a connection to be closed")
		if !errors.Is(got.err, ErrOverBudget) || got.i == 0 {
			t.Errorf("connection %d was closed because of %v, want one of the large ones to go for the budget", got.i, got.err)
		}
		if !all[0].Write([]byte("x"), nil) {
			t.Error("the connection with the shortest queue takes nothing any more")
		}
	})
}

// closeFunc is a handler with a Closed of its own.
type closeFunc struct {
	Handler
	closed func(error)
}

func (c closeFunc) Closed(err error) { c.closed(err) }
