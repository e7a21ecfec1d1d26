package http2

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "golang.org/x/net/http2"
)

func TestFloodsEndTheConnection(t *testing.T) {
	for name, frame := range map[string]func(l *link, i int){
		"SETTINGS":   func(l *link, _ int) { l.client.WriteSettings() },
		"PING":       func(l *link, _ int) { l.client.WritePing(false, [8]byte{1}) },
		"PING ack":   func(l *link, _ int) { l.client.WritePing(true, [8]byte{1}) },
		"PRIORITY":   func(l *link, _ int) { l.client.WritePriority(1, wire.PriorityParam{StreamDep: 3}) },
		"empty DATA": func(l *link, _ int) { l.client.WriteData(1, false, nil) },
		"unknown":    func(l *link, _ int) { l.client.WriteRawFrame(0x99, 0, 0, nil) },
		"WINDOW_UPDATE": func(l *link, _ int) {
			l.client.WriteWindowUpdate(1, 1)
		},
		"rapid reset": func(l *link, i int) {
			id := uint32(2*i + 3)
			l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: l.encode()})
			l.client.WriteRSTStream(id, wire.ErrCodeCancel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink(t, Config{})
				l.stream(1, false)
				for i := 0; !l.closing; i++ {
					if i > 10000 {
						t.Fatal("10,000 of them change nothing")
					}
					frame(l, i)
					l.send()
				}
				l.wantGoAway(EnhanceYourCalm)
			})
		})
	}
}

func TestTheSameFramesAtAPeacefulPaceAreFine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{})
		l.stream(1, false)
		for range 20000 {
			l.client.WritePing(false, [8]byte{1})
			l.send()
			l.out.Reset()
			l.sleep(10 * time.Millisecond)
		}
		if l.closing || l.aborted {
			t.Errorf("100 pings a second end the connection: %v", l.err)
		}
	})
}

func TestControlFramesAreFreeWhileDataFlows(t *testing.T) {
	l := newLink(t, Config{})
	s := l.stream(1, false)
	for range 20000 {
		s.WriteMessage([]byte("data"), nil)
		l.client.WriteWindowUpdate(1, 9)
		l.client.WriteWindowUpdate(0, 9)
		l.send()
		l.out.Reset()
	}
	if l.closing {
		t.Errorf("window updates of a reading client end the connection: %v", l.err)
	}
}

func TestEndlessContinuationEndsTheConnection(t *testing.T) {
	for name, part := range map[string]int{"many empty": 0, "large": 16000} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t, Config{})
			l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: l.encode()})
			for range 100 {
				l.client.WriteContinuation(1, false, make([]byte, part))
			}
			l.send()
			l.wantGoAway(EnhanceYourCalm)
		})
	}
}

func TestLongHeaderListIsAnswered431AndTheConnectionGoesOn(t *testing.T) {
	l := newLink(t, Config{})
	l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: l.encode("x-long", strings.Repeat("x", 9000))})
	l.send()
	if got := l.fields()[":status"]; got != "431" {
		t.Errorf("answered %s, want 431", got)
	}
	l.out.Reset()
	if len(l.handler.streams) != 0 {
		t.Error("the handler saw it")
	}
	l.stream(3, false)
}

func TestAPeerThatReadsNothingIsAborted(t *testing.T) {
	l := newLink(t, Config{})
	l.full = true
	l.client.WritePing(false, [8]byte{})
	l.send()
	if !l.aborted {
		t.Error("control frames pile up for a peer that does not read")
	}
}
