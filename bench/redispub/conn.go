// Package redispub publishes into Redis streams as nammayatri's back ends do: MULTI, XADD, EXPIRE, EXEC over Redis's own protocol. It
// shares no code with the reader of these streams, so a mistake in one of the two shows.
package redispub

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// patience limits a command whose context has no earlier deadline.
const patience = 10 * time.Second

// Refusal is an answer of Redis that begins with a minus: "ERR unknown command".
type Refusal string

func (r Refusal) Error() string { return "Redis: " + string(r) }

// Conn is a connection to one Redis server, for one caller at a time.
type Conn struct {
	c net.Conn
	r *bufio.Reader
	b []byte
}

// Dial connects.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, r: bufio.NewReader(c)}, nil
}

// Close ends the connection.
func (c *Conn) Close() { c.c.Close() }

// Do runs one command. An answer is a string, an int64, nil, a Refusal or a []any of these; a Refusal is the error too.
func (c *Conn) Do(args ...string) (any, error) {
	answers, err := c.Pipe(args)
	if err != nil {
		return nil, err
	}
	if refused, ok := answers[0].(Refusal); ok {
		return nil, fmt.Errorf("%s: %w", args[0], refused)
	}
	return answers[0], nil
}

// Pipe sends commands in one write and reads their answers, some of which may be a Refusal.
func (c *Conn) Pipe(commands ...[]string) ([]any, error) {
	c.b = c.b[:0]
	for _, args := range commands {
		c.b = fmt.Appendf(c.b, "*%d\r\n", len(args))
		for _, a := range args {
			c.b = fmt.Appendf(c.b, "$%d\r\n", len(a))
			c.b = append(append(c.b, a...), "\r\n"...)
		}
	}
	if err := c.c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.c.Write(c.b); err != nil {
		return nil, err
	}
	answers := make([]any, len(commands))
	for i := range answers {
		var err error
		if answers[i], err = c.answer(0); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

const (
	deepest = 8
	longest = 64 << 20
)

func (c *Conn) answer(depth int) (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" || depth > deepest {
		return nil, fmt.Errorf("read an answer of Redis: %q", line)
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return Refusal(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || n > longest && kind != ':' {
		return nil, fmt.Errorf("read an answer of Redis: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.r, b)
		return string(b[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.answer(depth + 1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("read an answer of Redis: %q", line)
}
