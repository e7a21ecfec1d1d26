// Package logqueue makes logging non-blocking: lines wait in a bounded queue for one goroutine that writes them. A log reader that stalls
// or is gone costs only log lines.
package logqueue

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// MaxBytes limits the bytes that wait for the reader of the log. It holds some thousand lines: seconds of a server at level info, or the
// output of a server at level debug while journald rotates its files.
const MaxBytes = 1 << 20

// FlushPatience limits the wait of Close for the reader of the log. A stalled reader delays a stop by no more than that.
const FlushPatience = time.Second

// Writer is an io.Writer for whole lines that never blocks. Lines keep their order.
type Writer struct {
	w    io.Writer
	gap  func(lost uint64) []byte // makes the line that replaces lost ones; nil: none
	wake chan struct{}            // has a token when there may be lines to write
	done chan struct{}            // closed when the last line was written

	dropped atomic.Uint64

	mu     sync.Mutex
	lines  []byte // that wait
	lost   uint64 // number of lines dropped since the last line was taken
	closed bool
}

// New makes a Writer that writes to w. gap makes the line that replaces lost lines; nil: nothing replaces them. Close must be called.
func New(w io.Writer, gap func(lost uint64) []byte) *Writer {
	q := &Writer{w: w, gap: gap, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Write queues a line, or drops it if the queue is full. It never fails.
func (q *Writer) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.lines)+len(line) > MaxBytes {
		q.dropped.Add(1)
		q.lost++
		return len(line), nil
	}
	if q.lost > 0 && q.gap != nil {
		q.lines = append(q.lines, q.gap(q.lost)...)
	}
	q.lost = 0
	q.lines = append(q.lines, line...)
	q.signal()
	return len(line), nil
}

// Dropped returns the number of lost lines: the queue was full, or a write failed.
func (q *Writer) Dropped() uint64 { return q.dropped.Load() }

// Fd is the descriptor of the file behind the queue. Callers check whether it is a terminal.
func (q *Writer) Fd() uintptr {
	if f, ok := q.w.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Close writes the waiting lines, for FlushPatience at most. Later lines are dropped.
func (q *Writer) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	timer := time.NewTimer(FlushPatience)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C: // the goroutine remains blocked in its write: the process is about to end
	}
	return nil
}

func (q *Writer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Writer) run() {
	defer close(q.done)
	var spare []byte
	for range q.wake {
		q.mu.Lock()
		lines, closed := q.lines, q.closed
		q.lines = spare[:0]
		q.mu.Unlock()
		if len(lines) > 0 {
			if _, err := q.w.Write(lines); err != nil {
				q.dropped.Add(uint64(bytes.Count(lines, []byte("\n"))))
			}
		}
		if closed {
			return
		}
		spare = lines
		if cap(spare) > keptBytes {
			spare = nil
		}
	}
}

// keptBytes limits the buffers that are used again, in bytes: after a burst of lines their memory is freed.
const keptBytes = 16 << 10
