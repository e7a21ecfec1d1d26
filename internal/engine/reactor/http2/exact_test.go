package http2

import (
	"testing"

	wire "golang.org/x/net/http2"
)

// HEADERS may contain only a priority; the fields then come in the next frame.
func TestHeadersMayHoldAPriorityAlone(t *testing.T) {
	l := newLink(t, Config{})
	priority := []byte{0, 0, 0, 0, 15}
	l.client.WriteRawFrame(wire.FrameHeaders, wire.FlagHeadersPriority|wire.FlagHeadersEndStream, 1, priority)
	l.client.WriteContinuation(1, true, l.encode())
	l.send()
	if len(l.handler.streams) != 1 || l.handler.streams[0].headers.Path != "/a/b" {
		t.Fatalf("opened are %v", l.handler.streams)
	}
	l.client.WriteRawFrame(wire.FrameHeaders, wire.FlagHeadersPriority|wire.FlagHeadersEndStream, 3, priority[:4])
	l.send()
	l.wantGoAway(FrameSize)
}

// Otherwise a client that waits for window after each half of it would wait for ever.
func TestHalfAWindowIsGivenBack(t *testing.T) {
	l := newLink(t, Config{StreamWindow: 70000, ConnWindow: 1 << 20})
	l.stream(1, false)
	for range 5 {
		l.client.WriteData(1, false, make([]byte, 7000))
	}
	l.send()
	f, ok := l.expect(wire.FrameWindowUpdate).(*wire.WindowUpdateFrame)
	if !ok || f.StreamID != 1 || f.Increment != 35000 {
		t.Errorf("got %v, want half the window back", f)
	}
}
