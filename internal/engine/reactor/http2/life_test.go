package http2

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestSilentPeersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := silentLink(t, NewServer(Config{}, &recorder{}))
		l.in.WriteString(preface[:10])
		l.send()
		l.sleep(9 * time.Second)
		if l.aborted {
			t.Error("closed before the preface had its time")
		}
		l.sleep(2 * time.Second)
		if !l.aborted || !errors.Is(l.err, errNotHTTP2) {
			t.Errorf("aborted %t: %v", l.aborted, l.err)
		}
	})
}

func TestSilentClientsPatienceIsNotRenewed(t *testing.T) {
	for name, drip := range map[string]func(l *link, second int){
		"pings": func(l *link, _ int) {
			l.client.WritePing(false, [8]byte{})
		},
		"settings": func(l *link, _ int) { l.client.WriteSettings() },
		"a header block in pieces": func(l *link, second int) {
			if second == 0 {
				l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			} else {
				l.client.WriteContinuation(1, false, []byte{0x86})
			}
		},
		"a frame in pieces": func(l *link, second int) {
			if second == 0 {
				l.in.Write([]byte{0, 0, 200, 1, 4, 0, 0, 0, 1})
			} else {
				l.in.WriteByte(0x82)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := unacknowledged(t, Config{})
				for second := range 10 {
					if l.closing {
						t.Fatalf("closed after %d seconds", second)
					}
					drip(l, second)
					l.send()
					l.out.Reset()
					l.sleep(time.Second)
				}
				l.sleep(time.Second)
				if !l.closing {
					t.Error("the connection is kept")
				}
			})
		})
	}
}

func TestAConnectionThatSpeaksHTTP2MayWaitForItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{})
		l.client.WriteSettingsAck()
		l.send()
		l.sleep(time.Minute)
		if l.closing || l.aborted {
			t.Fatal("closed although it acknowledged SETTINGS")
		}
		for range 2 { // pings are no requests
			l.client.WritePing(false, [8]byte{})
			l.send()
			l.out.Reset()
			l.sleep(31 * time.Second)
		}
		if !l.closing {
			t.Error("a connection that never has a request is kept")
		}
	})
}

func TestLaterHeaderBlocksThatDoNotEndCloseTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{KeepAlive: 10 * time.Second})
		l.stream(1, false)
		l.client.WriteHeaders(wire.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x82}})
		for range 21 {
			l.client.WriteContinuation(3, false, []byte{0x86})
			l.send()
			l.sleep(time.Second)
		}
		l.wantGoAway(EnhanceYourCalm)
	})
}

func TestKeepAlivePingsSilentConnectionsWithStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{KeepAlive: time.Minute})
		l.stream(1, false)
		l.sleep(61 * time.Second) // the preface and the request count as activity
		l.quiet()
		l.sleep(time.Minute)
		p, ok := l.expect(wire.FramePing).(*wire.PingFrame)
		if !ok {
			t.Fatal("no ping")
		}
		l.client.WritePing(true, p.Data)
		l.send()
		l.sleep(2 * time.Minute)
		l.expect(wire.FramePing)
		if l.aborted {
			t.Fatal("aborted although it answers")
		}
		l.sleep(time.Minute)
		if !l.aborted {
			t.Error("a peer that does not answer is kept")
		}
	})
}

func TestConnectionsWithoutStreamsAreClosedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{KeepAlive: time.Minute})
		l.sleep(3 * time.Minute)
		l.wantGoAway(NoError)
	})
}

func TestProbeReachesEveryStreamWithOnePing(t *testing.T) {
	l := newLink(t, Config{})
	a, b := l.stream(1, false), l.stream(3, true)
	a.Probe()
	b.Probe()
	p, ok := l.expect(wire.FramePing).(*wire.PingFrame)
	if !ok {
		t.Fatal("no ping")
	}
	l.quiet()
	l.client.WritePing(true, p.Data)
	l.send()
	if a.alive != 1 || b.alive != 1 {
		t.Errorf("alive %d and %d times, want once each", a.alive, b.alive)
	}
	a.Probe()
	l.expect(wire.FramePing)
}

func TestDrainIsInTwoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{})
		s := l.stream(1, false)
		done := make(chan error, 1)
		go func() { done <- l.conn.srv.Shutdown(t.Context()) }()
		synctest.Wait()
		g, ok := l.expect(wire.FrameGoAway).(*wire.GoAwayFrame)
		if !ok || g.LastStreamID != maxWindow || g.ErrCode != wire.ErrCodeNo {
			t.Fatalf("first GOAWAY is %v", g)
		}
		l.expect(wire.FramePing)
		late := l.stream(3, false) // was on its way
		l.sleep(2 * time.Second)   // the ping is not answered
		g, ok = l.expect(wire.FrameGoAway).(*wire.GoAwayFrame)
		if !ok || g.LastStreamID != 3 {
			t.Fatalf("second GOAWAY is %v", g)
		}
		l.request(5, false)
		l.wantReset(5, RefusedStream)
		for _, st := range []*recorded{s, late} {
			if l.closing {
				t.Fatal("closed with a request open")
			}
			st.WriteTrailers(hpack.HeaderField{Name: ":status", Value: "200"})
			l.drain()
		}
		if !l.closing {
			t.Fatal("not closed after the last answer")
		}
		l.conn.Closed(nil)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownAbortsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{})
		l.stream(1, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- l.conn.srv.Shutdown(ctx) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !l.aborted {
			t.Fatal("not aborted")
		}
		l.conn.Closed(l.err)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
	})
}

func TestAnEndThatIsNotReadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(t, Config{})
		l.client.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
		l.send()
		l.expect(wire.FrameSettings)
		s := l.stream(1, false)
		s.Write(nil, []byte("waits"))
		s.WriteTrailers(hpack.HeaderField{Name: "grpc-status", Value: "0"})
		l.sleep(4 * time.Second)
		if s.closed {
			t.Error("cut off too early")
		}
		l.sleep(2 * time.Second)
		l.wantReset(1, Cancel)
		if !s.closed {
			t.Error("the stream is kept for ever")
		}
	})
}

func TestHTTP1IsToldWhereItIs(t *testing.T) {
	l := silentLink(t, NewServer(Config{}, &recorder{}))
	l.in.WriteString("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	l.send()
	head, body, _ := strings.Cut(l.out.String(), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 505 ") || len(body) != 36 || !l.closing {
		t.Errorf("answered %q, closing %t", l.out.String(), l.closing)
	}
	l.out.Reset()
}

func TestHeaderTableIsDroppedOnceTheConnectionCarriesGRPC(t *testing.T) {
	l := newLink(t, Config{})
	l.request(1, false, "content-type", "application/grpc", "x-first", "one")
	f, ok := l.expect(wire.FrameSettings).(*wire.SettingsFrame)
	if !ok {
		t.Fatal("no SETTINGS")
	}
	if v, ok := f.Value(wire.SettingHeaderTableSize); !ok || v != 0 {
		t.Fatalf("got %v, want a header table of 0", f)
	}
	l.request(3, false, "content-type", "application/grpc", "x-first", "one") // still refers to the table
	l.client.WriteSettingsAck()
	l.enc.SetMaxDynamicTableSizeLimit(0)
	l.request(5, false, "content-type", "application/grpc", "x-first", "one")
	if l.conn.in != nil {
		t.Error("the decoder is kept")
	}
	if len(l.handler.streams) != 3 || l.closing {
		t.Fatalf("%d streams, closing %t: %v", len(l.handler.streams), l.closing, l.err)
	}
	for i, s := range l.handler.streams {
		if s.headers.Get("x-first") != "one" || s.headers.Path != "/a/b" {
			t.Errorf("request %d has %v", i, s.headers)
		}
	}
}

// TestIdleConnectionIsSmall limits the size of an idle connection with one stream: these two structs and nothing else.
func TestIdleConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}) + unsafe.Sizeof(Stream{}); n > 192 {
		t.Errorf("Conn and Stream have %d bytes", n)
	}
	l := newLink(t, Config{})
	l.request(1, false, "content-type", "application/grpc")
	l.client.WriteSettingsAck()
	l.client.WriteData(1, false, []byte("hello"))
	l.send()
	s := l.handler.streams[0]
	s.WriteMessage([]byte("hi"), nil)
	if l.conn.in != nil || l.conn.index != nil || s.out != nil || len(l.rest) != 0 {
		t.Error("an idle connection keeps a buffer")
	}
	l.out.Reset()
}
