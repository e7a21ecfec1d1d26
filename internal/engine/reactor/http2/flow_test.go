package http2

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestWritesWaitForTheStreamsWindowInOrder(t *testing.T) {
	l := newLink(t, Config{})
	l.client.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 10})
	l.send()
	l.expect(wire.FrameSettings)
	s := l.stream(1, false)
	s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "200"})
	if l.fields()[":status"] != "200" {
		t.Error("headers do not come at once")
	}
	for _, text := range []string{"alpha", "bravo", "charlie"} {
		if !s.Write([]byte(text[:1]), []byte(text[1:])) {
			t.Fatalf("%s was refused", text)
		}
	}
	s.WriteTrailers(hpack.HeaderField{Name: "grpc-status", Value: "0"})
	if got := l.body(1); got != "alphabravo" {
		t.Errorf("a window of 10 let %q through", got)
	}
	l.client.WriteWindowUpdate(1, 3)
	l.send()
	if got := l.body(1); got != "cha" {
		t.Errorf("3 more let %q through", got)
	}
	l.quiet()
	l.client.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 100}) // opens open streams too
	l.send()
	l.expect(wire.FrameSettings)
	if got := l.body(1); got != "rlie" {
		t.Errorf("then came %q", got)
	}
	if l.fields()["grpc-status"] != "0" {
		t.Error("trailers do not follow")
	}
	l.wantReset(1, NoError) // even if the request is incomplete
	if !s.closed || s.err != nil {
		t.Errorf("closed %t with %v, want in good order", s.closed, s.err)
	}
	if l.conn.srv.Queued() != 0 || l.conn.queued != 0 {
		t.Errorf("%d bytes are still accounted", l.conn.srv.Queued())
	}
}

func TestLargeMessagesAreSplitAndInterleaved(t *testing.T) {
	l := newLink(t, Config{})
	l.client.WriteWindowUpdate(0, 1<<20)
	l.send()
	a, b := l.stream(1, false), l.stream(3, false)
	l.queued = socketHighWater // the socket is full
	a.WriteMessage(nil, []byte(strings.Repeat("a", 50000)))
	b.WriteMessage(nil, []byte("b"))
	l.quiet()
	l.queued = 0
	l.conn.Drained()
	order, sizes := "", map[uint32]int{}
	for f := l.next(); f != nil; f = l.next() {
		d, ok := f.(*wire.DataFrame)
		if !ok || len(d.Data()) > maxFrameSize {
			t.Fatalf("got %v", f)
		}
		order += string(d.Data()[len(d.Data())-1:])
		sizes[d.StreamID] += len(d.Data())
	}
	if sizes[1] != 50005 || sizes[3] != 6 {
		t.Errorf("%d and %d bytes came", sizes[1], sizes[3])
	}
	if !strings.Contains(order[:2], "b") {
		t.Errorf("frames come in the order %s: the small message waits for the large one", order)
	}
}

func TestAStalledStreamIsBoundedAndDrains(t *testing.T) {
	l := newLink(t, Config{StreamQueueBytes: 1000})
	l.client.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l.send()
	l.expect(wire.FrameSettings)
	s := l.stream(1, false)
	if !s.Write(nil, make([]byte, 5000)) {
		t.Fatal("an empty queue must take one write of any size")
	}
	if s.Write(nil, make([]byte, 1)) {
		t.Error("a full queue takes more")
	}
	other := l.stream(3, false)
	if !other.Write(nil, make([]byte, 900)) || !other.Write(nil, make([]byte, 90)) || other.Write(nil, make([]byte, 90)) {
		t.Error("another stream has its own cap")
	}
	l.client.WriteWindowUpdate(1, 4999)
	l.send()
	if s.drained != 0 {
		t.Error("drained too early")
	}
	l.client.WriteWindowUpdate(1, 1)
	l.send()
	if s.drained != 1 || other.drained != 0 {
		t.Errorf("drained %d and %d times, want 1 and 0", s.drained, other.drained)
	}
	if !s.Write(nil, make([]byte, 1)) {
		t.Error("refused after it drained")
	}
}

func TestAConnectionsQueuesAreBoundedTogether(t *testing.T) {
	l := newLink(t, Config{ConnQueueBytes: 1000})
	l.client.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l.send()
	l.expect(wire.FrameSettings)
	a, b := l.stream(1, false), l.stream(3, false)
	if !a.Write(nil, make([]byte, 900)) {
		t.Fatal("refused below the cap")
	}
	if b.Write(nil, make([]byte, 200)) {
		t.Fatal("taken above the cap of the connection")
	}
	a.Reset(Cancel, "")
	l.drain()
	if b.drained != 1 {
		t.Error("nobody tells the refused stream that there is room")
	}
	if !b.Write(nil, make([]byte, 200)) {
		t.Error("refused although there is room")
	}
}

func TestSocketBufferCountsAgainstTheCap(t *testing.T) {
	l := newLink(t, Config{StreamQueueBytes: 100 << 10})
	s := l.stream(1, false)
	l.queued = socketHighWater
	s.Write(nil, make([]byte, 30<<10))
	if s.Write(nil, make([]byte, 30<<10)) {
		t.Error("a client that does not read may cost more than its cap")
	}
}

func TestAPausedStreamGetsNoWindow(t *testing.T) {
	l := newLink(t, Config{StreamWindow: 70000, ConnWindow: 1 << 20})
	s := l.stream(1, false)
	s.Pause()
	for range 7 {
		l.client.WriteData(1, false, make([]byte, 10000))
	}
	l.send()
	l.quiet()
	if s.data.Len() != 70000 {
		t.Errorf("%d bytes arrived", s.data.Len())
	}
	s.Resume()
	l.drain()
	if s.resumed != 1 {
		t.Error("the handler does not learn that it may go on")
	}
	f, ok := l.expect(wire.FrameWindowUpdate).(*wire.WindowUpdateFrame)
	if !ok || f.StreamID != 1 || f.Increment != 70000 {
		t.Errorf("got %v, want the whole window back", f)
	}
	s.Pause()
	for range 7 {
		l.client.WriteData(1, false, make([]byte, 10000))
	}
	l.client.WriteData(1, false, []byte("x"))
	l.send()
	l.wantReset(1, FlowControl)
	var se *StreamError
	if !errors.As(s.err, &se) || se.Code != FlowControl {
		t.Errorf("closed with %v", s.err)
	}
}

func TestTrailersEndARequest(t *testing.T) {
	l := newLink(t, Config{})
	s := l.stream(1, false)
	l.client.WriteData(1, false, []byte("body"))
	l.send()
	if s.half {
		t.Fatal("the request ended before its trailers")
	}
	l.block.Reset()
	if err := l.enc.WriteField(hpack.HeaderField{Name: "x-sum", Value: "1"}); err != nil {
		t.Fatal(err)
	}
	l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: l.block.Bytes()})
	l.send()
	if !s.half || s.data.String() != "body" {
		t.Errorf("ended: %t, with %q", s.half, &s.data)
	}
}

func TestSettingsHaveTheirBounds(t *testing.T) {
	for _, c := range []struct {
		id    wire.SettingID
		value uint32
		code  ErrCode // 0: the value is valid
	}{
		{wire.SettingEnablePush, 1, 0},
		{wire.SettingEnablePush, 2, ProtocolError},
		{wire.SettingInitialWindowSize, 1<<31 - 1, 0},
		{wire.SettingInitialWindowSize, 1 << 31, FlowControl},
		{wire.SettingMaxFrameSize, 1 << 14, 0},
		{wire.SettingMaxFrameSize, 1<<14 - 1, ProtocolError},
		{wire.SettingMaxFrameSize, 1<<24 - 1, 0},
		{wire.SettingMaxFrameSize, 1 << 24, ProtocolError},
	} {
		t.Run(fmt.Sprint(c.id, c.value), func(t *testing.T) {
			l := newLink(t, Config{})
			l.client.WriteSettings(wire.Setting{ID: c.id, Val: c.value})
			l.send()
			if c.code != 0 {
				l.wantGoAway(c.code)
			} else if f, ok := l.expect(wire.FrameSettings).(*wire.SettingsFrame); !ok || !f.IsAck() {
				t.Errorf("got %v, want it acknowledged", f)
			}
		})
	}
}

func TestExceedingTheConnectionsWindowEndsIt(t *testing.T) {
	l := newLink(t, Config{StreamWindow: 1 << 20, ConnWindow: 1 << 16})
	s := l.stream(1, false)
	s.Pause()
	for range 7 {
		l.client.WriteData(1, false, make([]byte, 10000))
	}
	l.send()
	l.wantGoAway(FlowControl)
}

func TestWindowsComeBackInBatches(t *testing.T) {
	l := newLink(t, Config{})
	l.stream(1, false)
	updates, sent := 0, 0
	for range 100 {
		l.client.WriteData(1, false, make([]byte, 10000))
		sent += 10000
		l.send()
		for f := l.next(); f != nil; f = l.next() {
			if _, ok := f.(*wire.WindowUpdateFrame); !ok {
				t.Fatalf("got %v", f)
			}
			updates++
		}
	}
	if updates == 0 || updates > 40 {
		t.Errorf("%d updates for %d frames", updates, 100)
	}
}

func TestHeldBytesAreBoundedPerConnection(t *testing.T) {
	l := newLink(t, Config{HoldBytes: 100})
	a, b := l.stream(1, false), l.stream(3, false)
	if !a.Hold(60) || b.Hold(60) || !b.Hold(40) {
		t.Error("the cap is not the connection's")
	}
	a.Hold(-60)
	if !b.Hold(60) {
		t.Error("what was given back is not free")
	}
}

func TestManyStreams(t *testing.T) {
	l := newLink(t, Config{MaxStreams: 300})
	for i := range uint32(300) {
		l.stream(2*i+1, false)
	}
	l.request(601, false)
	l.wantReset(601, RefusedStream)
	for i, s := range l.handler.streams {
		if i%3 != 0 {
			s.WriteTrailers(hpack.HeaderField{Name: ":status", Value: "200"})
		}
	}
	l.drain()
	if l.conn.open != 100 {
		t.Errorf("%d streams are open, want 100", l.conn.open)
	}
	for i, s := range l.handler.streams {
		if s.closed != (i%3 != 0) {
			t.Fatalf("stream %d: closed is %t", i, s.closed)
		}
	}
	l.stream(603, false)
	l.conn.Closed(errors.New("gone"))
	for i, s := range l.handler.streams {
		if !s.closed {
			t.Fatalf("stream %d was not told that the connection is gone", i)
		}
	}
}

func TestNamesOfFieldsAreLowerCase(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "z-9": true, "@": true, "[": true, "A": false, "Z": false, "xAx": false, "a:b": false, "a b": false, "a\x7f": false, "\x00": false} {
		if validName(name) != ok {
			t.Errorf("%q: %t", name, !ok)
		}
	}
}

// A client that sends its last bytes and hangs up is heard to the end, although it takes no more control frames.
func TestAPeerThatTakesNothingMoreIsReadToTheEnd(t *testing.T) {
	l := newLink(t, Config{})
	s := l.stream(1, false)
	l.out.Reset()
	l.deaf = true
	l.client.WritePing(false, [8]byte{})
	for range 7 { // a window is earned
		l.client.WriteData(1, false, make([]byte, 10000))
	}
	l.send()
	if l.aborted || s.data.Len() != 70000 {
		t.Errorf("%d bytes arrived; aborted %t", s.data.Len(), l.aborted)
	}
}
