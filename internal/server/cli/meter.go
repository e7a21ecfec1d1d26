package cli

import (
	"fmt"
	"io"
	"time"

	"godwit.dev/godwit/internal/server/cli/command"
)

// meterEvery is the shortest interval between two updates of the progress.
const meterEvery = 200 * time.Millisecond

// meter shows the progress of long work on a terminal: the count, the rate, and the remaining time if the total is known.
type meter struct {
	out   io.Writer // nil: not shown
	what  string
	total int64 // bytes of the input; 0: not known
	read  int64
	n     int64
	begun time.Time
	shown time.Time
}

func (p *program) meter(what string, total int64) *meter {
	m := &meter{what: what, total: total, begun: time.Now()}
	if command.Terminal(p.stderr) && !p.json {
		m.out = p.stderr
	}
	return m
}

// add counts n more.
func (m *meter) add(n int) {
	m.n += int64(n)
	if now := time.Now(); m.out != nil && now.Sub(m.shown) >= meterEvery {
		m.shown = now
		fmt.Fprintf(m.out, "\r\x1b[K%s", m.text(now))
	}
}

func (m *meter) text(now time.Time) string {
	took := now.Sub(m.begun)
	text := fmt.Sprintf("%d %s, %.0f/s", m.n, m.what, float64(m.n)/max(took.Seconds(), 0.001))
	if m.total > 0 && m.read > 0 {
		left := time.Duration(float64(took) * float64(m.total-m.read) / float64(m.read))
		text += fmt.Sprintf(", %d %%, %s left", 100*m.read/m.total, left.Round(time.Second))
	}
	return text
}

// done takes the line away.
func (m *meter) done() {
	if m.out != nil {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}

// reader counts the bytes read from the input, for the remaining time.
func (m *meter) reader(r io.Reader) io.Reader { return &countingReader{r, m} }

type countingReader struct {
	r io.Reader
	m *meter
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.m.read += int64(n)
	return n, err
}

// rowCounter counts the rows written through it. A row is a line; in a CSV table it may continue on the next line within quotes.
type rowCounter struct {
	w      io.Writer
	seen   func(n int)
	csv    bool
	quoted bool
}

func (l *rowCounter) Write(b []byte) (int, error) {
	n, err := l.w.Write(b)
	rows := 0
	for _, c := range b[:n] {
		switch {
		case c == '"' && l.csv: // a quote within quotes is written twice
			l.quoted = !l.quoted
		case c == '\n' && !l.quoted:
			rows++
		}
	}
	l.seen(rows)
	return n, err
}
