package h2post

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

func TestEveryMessageGetsItsOwnAnswer(t *testing.T) {
	for _, streams := range []int{0, 7} { // 0: Go's default
		var conns atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Topic") != string(body) || r.Header.Get("Ttl") != "60" || r.ContentLength != int64(len(body)) || r.URL.RequestURI() != "/push/1" {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write(body)
		}))
		server.EnableHTTP2 = true
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // some connections are refused as one too many
		server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns.Add(1)
			}
		}
		cert, _ := certificate()
		server.StartTLS()
		server.TLS.Certificates[0] = cert
		c := client(t)
		address := server.Listener.Addr().String()
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				// Some bodies are larger than the connection's window, most are not.
				body := fmt.Sprint(i) + strings.Repeat("x", i%5*1000)
				a, _, err := c.Post(t.Context(), message(address, body))
				if err != nil || a.Status != http.StatusOK || string(a.Body) != body {
					t.Errorf("message %d: %v %v", i, a, err)
				}
			})
		}
		wg.Wait()
		if n := conns.Load(); n > usualConns || streams == 0 && n > 9 {
			t.Errorf("%d connections for 2,000 messages with %d at once on each", n, streams)
		}
		_ = c.Close()
		server.Close()
	}
}

func TestUnprocessedRequestIsRetriedOnAnotherConnection(t *testing.T) {
	for name, refuse := range map[string]func(p *peer, id uint32){
		"refused":        func(p *peer, id uint32) { p.check(p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)) },
		"on its way out": func(p *peer, _ uint32) { p.check(p.fr.WriteGoAway(0, http2.ErrCodeNo, nil)) },
		"on its way, twice": func(p *peer, _ uint32) {
			p.check(p.fr.WriteGoAway(1<<31-1, 0, nil))
			p.check(p.fr.WriteGoAway(0, 0, nil))
		},
	} {
		var refused atomic.Bool
		address := script(t, func(p *peer) {
			p.greet()
			for a := p.next(nil); a != nil; a = p.next(nil) {
				if refused.CompareAndSwap(false, true) {
					refuse(p, a.id)
				} else {
					p.answer(a.id, http.StatusCreated)
				}
			}
		})
		if a, _, err := post(t, client(t), message(address, "m")); err != nil || a.Status != http.StatusCreated {
			t.Errorf("%s: %v %v", name, a, err)
		}
	}
}

func TestPossiblyArrivedRequestCountsAsSent(t *testing.T) {
	for name, end := range map[string]func(p *peer, id uint32){
		"cut":          func(*peer, uint32) {},
		"broken off":   func(p *peer, id uint32) { p.check(p.fr.WriteRSTStream(id, http2.ErrCodeInternal)); p.next(nil) },
		"no status":    func(p *peer, id uint32) { p.head(id, true, "x", "y"); p.next(nil) },
		"body first":   func(p *peer, id uint32) { p.check(p.fr.WriteData(id, true, []byte("?"))); p.next(nil) },
		"only interim": func(p *peer, id uint32) { p.head(id, true, ":status", "103"); p.next(nil) },
		"two statuses": func(p *peer, id uint32) { p.head(id, true, ":status", "201", ":status", "200"); p.next(nil) },
		"a push": func(p *peer, id uint32) {
			p.check(p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true}))
			p.next(nil)
		},
		"a stream of nobody": func(p *peer, id uint32) { p.head(id+2, true, ":status", "201"); p.next(nil) },
		"goodbye for others": func(p *peer, id uint32) { p.check(p.fr.WriteGoAway(id, http2.ErrCodeNo, nil)) },
		"too much window":    func(p *peer, _ uint32) { p.check(p.fr.WriteWindowUpdate(0, 1<<31-1)); p.next(nil) },
		"nonsense":           func(p *peer, _ uint32) { _, _ = p.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); p.next(nil) },
	} {
		var messages atomic.Int64
		address := script(t, func(p *peer) {
			p.greet()
			if a := p.next(nil); a != nil {
				messages.Add(1)
				end(p, a.id)
			}
		})
		c := client(t)
		a, sent, err := post(t, c, message(address, "m"))
		if err == nil || !sent {
			t.Errorf("%s: answer %v, sent %t, error %v", name, a, sent, err)
		}
		if n := messages.Load(); n != 1 {
			t.Errorf("%s: it was sent %d times", name, n)
		}
		_ = c.Close()
	}
}

func TestAnswersAreReadAsFarAsTheyMeanAnything(t *testing.T) {
	long := strings.Repeat("b", 40_000)
	address := script(t, func(p *peer) {
		p.greet()
		for a := p.next(nil); a != nil; a = p.next(nil) {
			switch string(a.body) {
			case "interim":
				p.head(a.id, false, ":status", "103", "link", "x")
				p.answer(a.id, http.StatusCreated)
			case "later":
				p.head(a.id, false, ":status", "429", "retry-after", "7")
				p.check(p.fr.WriteData(a.id, false, []byte("too ")))
				p.check(p.fr.WriteData(a.id, false, []byte("many")))
				p.head(a.id, true, "trailer", "x")
			case "long":
				p.head(a.id, false, ":status", "500")
				for i := 0; i < len(long); i += 10_000 {
					p.check(p.fr.WriteData(a.id, false, []byte(long[i:i+10_000])))
				}
			case "cut":
				p.head(a.id, false, ":status", "400")
				p.check(p.fr.WriteData(a.id, false, []byte("beca")))
				p.check(p.fr.WriteRSTStream(a.id, http2.ErrCodeInternal))
			}
		}
	})
	c := client(t)
	for _, want := range []struct {
		body, said, after string
		status            int
		cut               bool
	}{
		{body: "interim", status: 201},
		{body: "later", status: 429, after: "7", said: "too many"},
		{body: "long", status: 500, said: long[:maxAnswer]},
		{body: "cut", status: 400, said: "beca", cut: true},
		{body: "interim", status: 201},
	} {
		a, _, err := post(t, c, message(address, want.body))
		if err != nil || a.Status != want.status || string(a.Body) != want.said || a.Header.Get("Retry-After") != want.after || (a.Cut != nil) != want.cut {
			t.Errorf("%s: %.100v %v", want.body, a, err)
		}
	}
}

func TestAServerThatGoesOnIsToldThatItWasEnough(t *testing.T) {
	told := make(chan http2.ErrCode, 1)
	address := script(t, func(p *peer) {
		p.greet()
		a := p.next(nil)
		p.head(a.id, false, ":status", "500")
		for range maxAnswer / 4096 {
			p.check(p.fr.WriteData(a.id, false, make([]byte, 4096)))
		}
		p.next(func(f http2.Frame) {
			if r, ok := f.(*http2.RSTStreamFrame); ok {
				told <- r.ErrCode
			}
		})
	})
	if a, _, err := post(t, client(t), message(address, "x")); err != nil || len(a.Body) != maxAnswer {
		t.Fatalf("%v, %v", a, err)
	}
	if code := <-told; code != http2.ErrCodeCancel {
		t.Errorf("it was told %s", code)
	}
}

func TestAWindowThatIsSmallIsKept(t *testing.T) {
	address := script(t, func(p *peer) {
		p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		p.fr.ReadMetaHeaders.SetMaxDynamicTableSize(0)
		for a := p.next(nil); a != nil; a = p.next(nil) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	c := client(t)
	for range 3 {
		if a, _, err := post(t, c, message(address, strings.Repeat("x", 100))); err != nil || a.Status != http.StatusCreated {
			t.Fatal(a, err)
		}
	}
	if _, sent, err := post(t, c, message(address, strings.Repeat("x", 101))); !errors.Is(err, ErrUnsuited) || sent {
		t.Errorf("a message larger than the window: sent %t, %v", sent, err)
	}
}

func TestAFullConnectionGetsCompany(t *testing.T) {
	both := make(chan struct{})
	address := script(t, func(p *peer) {
		p.greet(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		a := p.next(nil)
		if p.n == 2 {
			close(both)
		}
		select { // the first connection answers its only message after the second has received one
		case <-both:
		case <-t.Context().Done():
		}
		for ; a != nil; a = p.next(nil) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	c := client(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if a, _, err := post(t, c, message(address, "m")); err != nil || a.Status != http.StatusCreated {
				t.Error(a, err)
			}
		})
	}
	wg.Wait()
}

func TestThereAreNoMoreConnectionsThanTheClientMayHave(t *testing.T) {
	var most atomic.Int32
	address := script(t, func(p *peer) {
		most.Store(max(most.Load(), int32(p.n))) // a few
		p.greet(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		for a := p.next(nil); a != nil; a = p.next(nil) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	c := client(t, func(c *Config) { c.Conns = 1 })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a, _, err := post(t, c, message(address, "m")); err != nil || a.Status != http.StatusCreated {
				t.Error(a, err)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d connections, 1 is allowed", n)
	}
}

func TestWhyAServerEndsAConnectionIsTold(t *testing.T) {
	const why = `{"reason":"IdleTimeout"}`
	for name, c := range map[string]struct {
		last uint32 // the last message that its GOAWAY declares processed
		sent bool
	}{"of a message that it has looked at": {1, true}, "of one that it has not": {0, false}} {
		address := script(t, func(p *peer) {
			p.greet()
			if p.next(nil) != nil {
				p.check(p.fr.WriteGoAway(1<<31-1, http2.ErrCodeNo, []byte(why)))
				p.check(p.fr.WriteGoAway(c.last, http2.ErrCodeNo, nil)) // a second GOAWAY without a reason does not erase the reason of the first
			}
		})
		_, sent, err := post(t, client(t), message(address, "m"))
		var bye *GoAwayError
		if !errors.As(err, &bye) || bye.Said != why || sent != c.sent || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: sent %t, %v", name, sent, err)
		}
	}
}

func TestMessagesWaitForTheConnectionsWindow(t *testing.T) {
	// The window of 65,535 bytes fits six messages. Once the server has read them, the client sends a seventh.
	const size = 10_000
	held := make(chan int, 1)
	address := script(t, func(p *peer) {
		p.greet()
		var ids []uint32
		for a := p.next(nil); a != nil; a = p.next(nil) {
			if ids = append(ids, a.id); len(ids) == 6 {
				held <- len(ids)
				for _, id := range ids {
					p.answer(id, http.StatusCreated)
				}
				p.check(p.fr.WriteWindowUpdate(0, 7*size))
			} else if len(ids) > 6 {
				p.answer(a.id, http.StatusCreated)
			}
		}
	})
	c := client(t)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if a, _, err := post(t, c, message(address, strings.Repeat("x", size))); err != nil || a.Status != http.StatusCreated {
				t.Error(a, err)
			}
		})
	}
	wg.Wait()
	if len(held) != 1 {
		t.Error("the server got other than six messages at first")
	}
}

func TestCancelledSenderWithdrawsItsMessage(t *testing.T) {
	got := make(chan http2.ErrCode, 1)
	arrived := make(chan bool, 1)
	address := script(t, func(p *peer) {
		p.greet()
		if p.next(nil) == nil {
			return
		}
		arrived <- true
		for a := p.next(func(f http2.Frame) {
			if r, ok := f.(*http2.RSTStreamFrame); ok {
				got <- r.ErrCode
			}
		}); a != nil; a = p.next(nil) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	c := client(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, sent, err := c.Post(ctx, message(address, "first")); !sent || !errors.Is(err, context.Canceled) {
		t.Errorf("sent %t, %v", sent, err)
	}
	if code := <-got; code != http2.ErrCodeCancel {
		t.Errorf("the server was told %s", code)
	}
	if _, sent, err := c.Post(ctx, message(address, "never")); sent || err == nil {
		t.Errorf("with a context that has ended: sent %t, %v", sent, err)
	}
	if a, _, err := post(t, c, message(address, "second")); err != nil || a.Status != http.StatusCreated {
		t.Errorf("the connection does not work any more: %v %v", a, err)
	}
}

func TestPingsAndSettingsAreAnswered(t *testing.T) {
	seen := make(chan string, 10)
	address := script(t, func(p *peer) {
		p.greet(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3})
		see := func(f http2.Frame) {
			switch f := f.(type) {
			case *http2.PingFrame:
				seen <- "ping " + string(f.Data[:])
			case *http2.SettingsFrame:
				if f.IsAck() {
					seen <- "settings"
				}
			}
		}
		a := p.next(see)
		p.check(p.fr.WritePing(false, [8]byte([]byte("whoareu?"))))
		p.check(p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 100}))
		p.answer(a.id, http.StatusCreated)
		for a := p.next(see); a != nil; a = p.next(see) {
			p.answer(a.id, http.StatusCreated)
		}
	})
	c := client(t)
	for range 2 {
		if _, _, err := post(t, c, message(address, "m")); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"settings", "ping whoareu?", "settings"} {
		if got := <-seen; got != want {
			t.Errorf("the client answers %q, want %q", got, want)
		}
	}
}

func TestServersThatDoNotSpeakHTTP2AreLeftToOthers(t *testing.T) {
	var conns atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	c := client(t)
	for range 3 {
		if _, sent, err := post(t, c, message(server.Listener.Addr().String(), "m")); !errors.Is(err, ErrUnsuited) || sent {
			t.Errorf("sent %t, %v", sent, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// One faulty server is no reason to fall back to HTTP/1.
func TestServersThatGreetBadlyAreNotUnsuited(t *testing.T) {
	distrustful := func(c *Config) { c.TLS = func() *tls.Config { return nil } }
	for name, c := range map[string]struct {
		greet  func(*peer)
		change func(*Config)
	}{
		"unknown certificate": {func(*peer) {}, distrustful},
		"gone":                {func(*peer) {}, func(*Config) {}},
		"no settings":         {func(p *peer) { p.check(p.fr.WritePing(false, [8]byte{})); p.next(nil) }, func(*Config) {}},
		"settings gone wrong": {func(p *peer) {
			p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
			p.next(nil)
		}, func(*Config) {}},
	} {
		_, sent, err := post(t, client(t, c.change), message(script(t, c.greet), "m"))
		if err == nil || sent || errors.Is(err, ErrUnsuited) {
			t.Errorf("%s: sent %t, %v", name, sent, err)
		}
	}
}

func TestUnreachableServerFailsAllWaitingSends(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := client(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, sent, err := post(t, c, message(l.Addr().String(), "m")); err == nil || sent {
				t.Errorf("sent %t, %v", sent, err)
			}
		})
	}
	wg.Wait()
}
