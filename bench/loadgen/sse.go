package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
)

// sseWire is a session over server-sent events. It sends acknowledgements by POST /v1/frames, over connections that all subscribers of the
// process share.
type sseWire struct {
	host, path string
	open       bool
	session    string
	post       func(session string, ids [][]byte)
}

func newSSEWire(t Target, app, recipient string, post func(session string, ids [][]byte)) *sseWire {
	q := url.Values{"app": {app}, "recipient": {recipient}}
	return &sseWire{host: t.HTTP, path: "/v1/stream?" + q.Encode(), post: post}
}

func (w *sseWire) begin() []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", w.path, w.host)
}

func (w *sseWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	if !w.open {
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			return 0, nil, nil
		}
		if !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			return 0, nil, fmt.Errorf("the server refused the stream: %.200q", b)
		}
		w.open = true
		used = end + 4
	}
	for {
		n := bytes.Index(b[used:], []byte("\n\n"))
		if n < 0 {
			return used, nil, nil
		}
		event := b[used : used+n]
		used += n + 2
		if len(event) > 0 && event[0] != ':' {
			if err := s.frame(event); err != nil {
				return used, nil, err
			}
		}
	}
}

func (w *sseWire) say(dst, _ []byte) []byte { return dst }

func (w *sseWire) ack(dst []byte, ids [][]byte) []byte {
	w.post(w.session, ids)
	return dst
}

func (w *sseWire) read(event []byte) (a arrival, err error) {
	if bytes.HasPrefix(event, []byte("retry: ")) { // of a welcome or goodbye
		_, event, _ = bytes.Cut(event, []byte("\n"))
	}
	name, rest, ok := bytes.Cut(event, []byte("\n"))
	name, found := bytes.CutPrefix(name, []byte("event: "))
	at := bytes.Index(rest, []byte("data: "))
	if !ok || !found || at < 0 {
		return a, errFrame
	}
	data := rest[at+len("data: "):]
	switch string(name) {
	case "notification":
		return readNotificationJSON(data)
	case "welcome":
		a.kind = welcome
		_, after, _ := bytes.Cut(data, []byte(`"session":"`))
		session, _, ok := bytes.Cut(after, []byte(`"`))
		if !ok {
			return a, errors.New("the welcome names no session")
		}
		w.session = string(session)
	case "goodbye":
		a.kind = goodbye
	case "error":
		a.kind = failure
	}
	return a, nil
}
