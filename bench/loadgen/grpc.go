package loadgen

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// grpcWire is a session over godwit.v1.Client/Connect: one stream on a connection of its own.
type grpcWire struct {
	target Target
	hello  []byte
	http   *http2Client
	in     grpcMessages
	credit uint32 // bytes received on the stream and not yet credited to the server
	sub    *subscriber
}

const sessionStream = 1

func newGRPCWire(t Target, hello []byte) *grpcWire {
	return &grpcWire{target: t, hello: hello, http: newHTTP2Client()}
}

func (w *grpcWire) begin() []byte {
	t := w.target
	t.Key = "" // a recipient has none
	b := appendRequest(w.http.begin(), sessionStream, t, "/godwit.v1.Client/Connect")
	b = appendGRPCMessage(b, sessionStream, w.hello, false)
	w.hello = nil
	return b
}

func (w *grpcWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	w.sub = s
	used, send, err = w.http.parse(b, w)
	if w.credit >= h2Window/2 {
		send = appendH2Update(send, sessionStream, w.credit)
		w.credit = 0
	}
	return used, send, err
}

func (w *grpcWire) data(_ uint32, p []byte, end bool) error {
	w.credit += uint32(len(p))
	if err := w.in.feed(p, w.sub.frame); err != nil {
		return err
	}
	if end {
		return errors.New("the server ended the stream")
	}
	return nil
}

func (w *grpcWire) headers(_ uint32, fields []hpack.HeaderField, end bool) error {
	if !end {
		return nil
	}
	if err := grpcStatus(fields); err != nil {
		return err
	}
	return errors.New("the server ended the session")
}

// window implements http2Sink. It does nothing: acknowledgements are too small to exhaust the window.
func (w *grpcWire) window(uint32, uint32) {}

func (w *grpcWire) ack(dst []byte, ids [][]byte) []byte {
	return appendGRPCMessage(dst, sessionStream, ackProto(ids), false)
}

func (w *grpcWire) say(dst, frame []byte) []byte {
	return appendGRPCMessage(dst, sessionStream, frame, false)
}

func (w *grpcWire) read(frame []byte) (arrival, error) { return readProto(frame) }
