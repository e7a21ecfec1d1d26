package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// NATS is the protocol of nats-server, for comparison. Delivery is at most once: nothing is stored, and clients acknowledge nothing.
const NATS = "nats"

const natsAll = "bench.all"

// natsWire subscribes to the recipient's subject and to the subject for all.
type natsWire struct {
	name string
	seq  uint64
	up   bool
}

func newNATSWire(name string) *natsWire { return &natsWire{name: name} }

func (w *natsWire) begin() []byte {
	return fmt.Appendf(nil, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB %s 1\r\nSUB %s 2\r\nPING\r\n", w.name, natsAll)
}

func (w *natsWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	for {
		line, payload, n, err := natsOp(b[used:])
		if err != nil || n == 0 {
			return used, send, err
		}
		used += n
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")):
			err = s.frame(payload)
		case bytes.HasPrefix(line, []byte("PING")):
			send = append(send, "PONG\r\n"...)
		case bytes.HasPrefix(line, []byte("PONG")) && !w.up:
			w.up = true
			err = s.frame(nil)
		case bytes.HasPrefix(line, []byte("-ERR")):
			err = fmt.Errorf("the server said %.100q", line)
		}
		if err != nil {
			return used, send, err
		}
	}
}

// natsOp parses one operation at the beginning of b; n is its length, or 0 if it is incomplete.
func natsOp(b []byte) (line, payload []byte, n int, err error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return nil, nil, 0, nil
	}
	line, n = b[:end], end+2
	if !bytes.HasPrefix(line, []byte("MSG ")) {
		return line, nil, n, nil
	}
	size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if err != nil || size < 0 || size > maxPayload {
		return nil, nil, 0, errFrame
	}
	if len(b) < n+size+2 {
		return nil, nil, 0, nil
	}
	return line, b[n : n+size], n + size + 2, nil
}

// read implements wire. An empty frame means that the server has accepted the session.
func (w *natsWire) read(payload []byte) (a arrival, err error) {
	if payload == nil {
		a.kind = welcome
		return a, nil
	}
	w.seq++
	return arrival{kind: notification, seq: w.seq, attempt: 1, due: findStamp(payload)}, nil
}

func (w *natsWire) say(dst, _ []byte) []byte { return dst }

func (w *natsWire) ack(dst []byte, _ [][]byte) []byte { return dst }

// natsContent returns a PUB operation to one recipient, or to all.
func (c *PublishConfig) natsContent() content {
	data, stamp := makeData(c.Size)
	subject, copies := RecipientName(c.Prefix, 0), 1
	if c.ToAll {
		subject, copies = natsAll, c.Recipients
	}
	head := fmt.Appendf(nil, "PUB %s %d\r\n", subject, len(data))
	out := content{bytes: append(append(head, data...), "\r\n"...), stamps: []int{len(head) + stamp}, copies: copies}
	if !c.ToAll {
		out.numbers = []int{len("PUB ") + len(subject) - numberLen}
	}
	return out
}

// natsPub publishes and has each publish confirmed, which only means that the server has read the operation.
type natsPub struct{ connected bool }

func (p *natsPub) begin() []byte {
	return []byte("CONNECT {\"verbose\":true,\"pedantic\":false}\r\n")
}

func (p *natsPub) admit(*request) bool { return true }

func (p *natsPub) parse(b []byte, copies int) (used int, a *answer, send []byte, err error) {
	for {
		line, _, n, err := natsOp(b[used:])
		if err != nil || n == 0 {
			return used, a, send, err
		}
		used += n
		switch {
		case bytes.HasPrefix(line, []byte("+OK")) && !p.connected:
			p.connected = true
		case bytes.HasPrefix(line, []byte("+OK")) && a != nil:
			return used, nil, send, errors.New("the server confirmed more than was published")
		case bytes.HasPrefix(line, []byte("+OK")):
			a = &answer{accepted: copies}
		case bytes.HasPrefix(line, []byte("PING")):
			send = append(send, "PONG\r\n"...)
		case bytes.HasPrefix(line, []byte("-ERR")):
			return used, nil, send, fmt.Errorf("the server said %.100q", line)
		}
	}
}
