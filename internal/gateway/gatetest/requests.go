package gatetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
)

// asked is the result of a request.
type asked struct {
	*request.Answer
	err error
}

// ask makes a request in a goroutine, since the test itself plays the worker.
func (s *Server) ask(r request.Request) <-chan asked {
	return s.far().askHere(r)
}

// askHere asks from this node.
func (s *Server) askHere(r request.Request) <-chan asked {
	if r.Timeout == 0 {
		r.Timeout = request.MaxTimeout
	}
	done := make(chan asked, 1)
	go func() {
		a, err := s.Asks.Ask(context.Background(), App, &r)
		done <- asked{a, err}
	}()
	return done
}

// answered waits for an answer and checks it.
func answered(t testing.TB, done <-chan asked, status int, data string) *request.Answer {
	t.Helper()
	a := <-done
	if a.err != nil || a.Status != status || string(a.Data) != data {
		t.Fatalf("answered with %+v, %v; want %d %.100q", a.Answer, a.err, status, data)
	}
	return a.Answer
}

func failed(t testing.TB, done <-chan asked, want ...error) {
	t.Helper()
	if a := <-done; !slices.ContainsFunc(want, func(e error) bool { return errors.Is(a.err, e) }) {
		t.Fatalf("answered with %+v, %v; want %v", a.Answer, a.err, want)
	}
}

// serving sends a serve frame, and returns once it is in effect.
func (c *conn) serving(queue string, subjects ...string) {
	c.t.Helper()
	c.send(`{"serve":{"subjects":%s,"queue":%q}}`, list(subjects), queue)
	c.settled()
}

// settled returns once the server has handled all frames sent before, and the other node has learnt their effect.
func (c *conn) settled() {
	c.t.Helper()
	c.send(`{"ping":{}}`)
	c.want("pong")
	c.at.reach(c.t)
}

// besideNATS connects a NATS client to the app, so that requests travel over the bus.
func besideNATS(run func(t *testing.T, g *Gate, s *Server)) func(t *testing.T, g *Gate, s *Server) {
	return func(t *testing.T, g *Gate, s *Server) {
		c, _, _, left, err := s.bus.Open(bus.Visitor{App: App})
		must(t, err)
		t.Cleanup(func() { _ = c.Close(); left() })
		run(t, g, s)
	}
}

func workerAnswers(t *testing.T, g *Gate, s *Server) {
	failed(t, s.ask(request.Request{Subject: "orders.get"}), topic.ErrNoResponders)
	c := g.welcomed(t, s, Options{Recipient: "worker-1"})
	c.serving("orders", "orders.>")
	done := s.ask(request.Request{
		Subject: "orders.get.17", Method: "GET", Path: "/17", Query: "a=b&a=c", ContentType: "application/json", Data: []byte(`{"n":1}`),
		Header: frame.Headers{"Accept": {"*/*"}, "Link": {"<a>", "<b>"}},
	})
	f := c.want("request")
	if f.Subject != "orders.get.17" || f.Method != http.MethodGet || f.Path != "/17" || f.Query != "a=b&a=c" || string(f.Data) != `{"n":1}` || len(f.RequestID) != 22 || f.Deadline == "" {
		t.Errorf("was asked %+v", f)
	}
	if got := fmt.Sprint(f.Headers); got != "map[Accept:*/* Link:[<a> <b>]]" {
		t.Errorf("the headers are %s", got)
	}
	c.send(`{"reply":{"request_id":%q,"status":201,"headers":{"location":"/18","Set-Cookie":["a=1","b=2"],"Godwit-Key":"forged"},"content_type":"text/plain","data":"made"}}`, f.RequestID)
	a := answered(t, done, 201, "made")
	if got := fmt.Sprint(a.Header); a.ContentType != "text/plain" || got != "map[Location:[/18] Set-Cookie:[a=1 b=2]]" {
		t.Errorf("answered with %s and headers %s", a.ContentType, got)
	}
	bin := bytes.Repeat([]byte{0, 255, 10, 13}, frame.MaxBody/4)
	done = s.ask(request.Request{Subject: "orders.put", Data: bin, ContentType: "image/png"})
	if f = c.want("request"); !bytes.Equal(f.DataBase64, bin) {
		t.Errorf("1 MiB came as %d bytes", len(f.DataBase64))
	}
	c.send(`{"reply":{"request_id":%q,"content_type":"image/png","data_base64":%q}}`, f.RequestID, base64.StdEncoding.EncodeToString(bin))
	answered(t, done, 200, string(bin))
	c.send(`{"unserve":{"subjects":["orders.>","never"],"queue":"orders"}}`)
	c.settled()
	failed(t, s.ask(request.Request{Subject: "orders.get"}), topic.ErrNoResponders)
}

func workersShare(t *testing.T, g *Gate, s *Server) {
	const n = 200
	var answers sync.WaitGroup
	counts := make([]int, 2)
	for i := range counts {
		c := g.welcomed(t, s, Options{Recipient: fmt.Sprint("worker-", i), Window: 1000})
		c.serving("orders", "orders.>")
		answers.Go(func() {
			for {
				ctx, cancel := patient(t)
				text, err := c.Next(ctx)
				cancel()
				if err != nil {
					return
				}
				f := parse(t, text)
				if f.Name != "request" {
					return
				}
				counts[i]++
				c.send(`{"reply":{"request_id":%q,"data":%d}}`, f.RequestID, i)
			}
		})
	}
	both := g.welcomed(t, s, Options{Recipient: "audit", Window: 1000})
	both.serving("audit", "orders.*")
	var done []<-chan asked
	for i := range n {
		asker := s.each()[i%len(s.each())] // a worker on the node of the request is preferred
		done = append(done, asker.askHere(request.Request{Subject: "orders.get"}))
		both.send(`{"reply":{"request_id":%q,"status":500}}`, "x"+both.want("request").RequestID) // this session has no such request
	}
	for _, d := range done {
		if a := <-d; a.err != nil || a.Status != 200 {
			t.Fatalf("answered with %+v, %v", a.Answer, a.err)
		}
	}
	for _, s := range s.each() {
		_ = s.Hub.Shutdown(t.Context())
	}
	answers.Wait()
	if counts[0]+counts[1] != n || min(counts[0], counts[1]) < n/2*15/100 {
		t.Errorf("the two were asked %v times of %d", counts, n)
	}
}

func fullWorker(t *testing.T, g *Gate, s *Server) {
	busy := g.welcomed(t, s, Options{Recipient: "worker-1", Window: 1})
	busy.serving("orders", "orders.>")
	first := s.ask(request.Request{Subject: "orders.get"})
	held := busy.want("request")
	if s.other != nil { // a request that the other node sends while a worker leaves its queue is lost, and its sender waits for the deadline
		busy.send(`{"reply":{"request_id":"never"}}`) // is not handled before that
		busy.settled()
	}
	failed(t, s.ask(request.Request{Subject: "orders.get"}), topic.ErrNoResponders, request.ErrBusy) // ErrBusy: it is just leaving its queue
	free := g.welcomed(t, s, Options{Recipient: "worker-2", Window: 100})
	free.serving("orders", "orders.>")
	for range 20 {
		d := s.ask(request.Request{Subject: "orders.get"})
		free.send(`{"reply":{"request_id":%q,"data":"free"}}`, free.want("request").RequestID)
		answered(t, d, 200, `"free"`)
	}
	free.Close()
	busy.send(`{"reply":{"request_id":%q,"data":"busy"}}`, held.RequestID)
	answered(t, first, 200, `"busy"`)
	for { // until the other node has learnt that the worker left, it may send it a request
		d := s.ask(request.Request{Subject: "orders.get", Timeout: 5 * time.Second})
		select {
		case a := <-d:
			if a.err == nil {
				t.Fatalf("answered with %+v by nobody", a.Answer)
			}
			continue
		case f := <-busy.coming():
			busy.send(`{"reply":{"request_id":%q,"data":"again"}}`, f.RequestID)
			answered(t, d, 200, `"again"`)
		}
		return
	}
}

// coming is the next frame.
func (c *conn) coming() <-chan Frame {
	if c.next1 == nil {
		ch := make(chan Frame, 1)
		c.next1 = ch
		go func() {
			ctx, cancel := patient(c.t)
			defer cancel()
			if text, err := c.Next(ctx); err == nil {
				ch <- parse(c.t, text)
			}
		}()
	}
	return c.next1
}

// leaves ends the only session of a recipient, at once even if a gateway would wait for the client to come back.
func (g *Gate) leaves(t *testing.T, c *conn, recipient string) {
	t.Helper()
	c.Close()
	if g.LingersOn {
		_, _, _ = c.at.Hub.Disconnect(t.Context(), App, recipient, "gone")
	}
}

func lostWorker(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "worker-1"})
	c.serving("orders", "orders.>")
	done := s.ask(request.Request{Subject: "orders.get"})
	c.want("request")
	g.leaves(t, c, "worker-1")
	failed(t, done, request.ErrWorkerGone)
	silent := g.welcomed(t, s, Options{Recipient: "worker-2"})
	silent.serving("stock", "stock")
	f := silent.askedInVain(s, "stock")
	silent.send(`{"reply":{"request_id":%q}}`, f.RequestID) // late: nobody notices
	silent.answeredPing()
	silent.at.reach(t)
}

// askedInVain makes requests until one reaches c, which does not answer it.
func (c *conn) askedInVain(s *Server, subject string) Frame {
	c.t.Helper()
	for patience := 50 * time.Millisecond; ; patience *= 2 { // doubled until a request arrives in time
		done := s.ask(request.Request{Subject: subject, Timeout: patience})
		select {
		case f := <-c.coming():
			failed(c.t, done, request.ErrNoAnswer)
			return f
		case a := <-done:
			if !errors.Is(a.err, request.ErrNoAnswer) {
				c.t.Fatalf("answered with %+v, %v; want %v", a.Answer, a.err, request.ErrNoAnswer)
			}
		}
	}
}

// answeredPing returns once the server has handled what c sent before; it skips requests that arrive before the pong.
func (c *conn) answeredPing() {
	c.t.Helper()
	c.send(`{"ping":{}}`)
	for {
		f, err := c.next()
		must(c.t, err)
		switch f.Name {
		case "pong":
			return
		case "request":
		default:
			c.t.Fatalf("got %+v, want a request or pong", f)
		}
	}
}

func badAnswers(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "worker-1"})
	other := g.welcomed(t, s, Options{Recipient: "worker-2"})
	c.serving("orders", "orders.>")
	other.serving("orders", "other.>")
	done := s.ask(request.Request{Subject: "orders.get"})
	f := c.want("request")
	other.send(`{"reply":{"request_id":%q,"status":500,"data":"stolen"}}`, f.RequestID)
	other.settled()
	other.send(`{"reply":{"request_id":%q,"status":99}}`, f.RequestID)
	if e := other.want("error"); e.Code != "bad_field" {
		t.Errorf("a bad answer to another's request is answered with %+v, want bad_field", e)
	}
	c.send(`{"reply":{"request_id":"never","data":"x"}}`)
	c.send(`{"reply":{"request_id":%q,"data":"first"}}`, f.RequestID)
	c.send(`{"reply":{"request_id":%q,"data":"second"}}`, f.RequestID)
	answered(t, done, 200, `"first"`)
	c.settled()
}

// badAnswersAnswered: a worker whose reply breaks the rules gets an error frame, and its asker does not wait for another answer.
func badAnswersAnswered(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "worker-1"})
	c.serving("orders", "orders.>")
	for _, bad := range []string{
		`"status":99`, `"status":1000`, `"headers":{"a b":"c"}`, `"headers":{"a":"b\r\nc: d"}`, `"content_type":"a\u0000"`,
		`"id":"n-1"`, `"headers":{"x":"` + strings.Repeat("x", frame.MaxHeaderBytes) + `"}`,
	} {
		done := s.ask(request.Request{Subject: "orders.get", Timeout: time.Minute})
		f := c.want("request")
		c.send(`{"reply":{%s,"request_id":%q}}`, bad, f.RequestID)
		if e := c.want("error"); e.Code != "bad_field" {
			t.Errorf("%.40s is answered with %+v, want bad_field", bad, e)
		}
		a := <-done
		if wrong := (*request.BadAnswerError)(nil); !errors.As(a.err, &wrong) {
			t.Errorf("%.40s: the asker gets %+v, %v; want BadAnswerError", bad, a.Answer, a.err)
		}
		c.send(`{"reply":{"request_id":%q,"data":"another"}}`, f.RequestID) // late: nobody notices
		c.answeredPing()
	}
	done := s.ask(request.Request{Subject: "orders.get"})
	c.send(`{"reply":{"request_id":%q,"data":"good"}}`, c.want("request").RequestID)
	answered(t, done, 200, `"good"`)
}

func servingRefused(t *testing.T, g *Gate, s *Server) {
	token, _, err := s.Access.MintToken(App, access.TokenRequest{Recipient: "car.7", TTL: time.Minute, Serve: []string{"cars.{sub}.>", "orders.*"}})
	must(t, err)
	c := g.welcomed(t, s, Options{Recipient: "car.7", Token: token})
	c.send(`{"serve":{"subjects":["orders.get","cars.car%%2E7.lock","orders.>","cars.>","cars.car.7.lock","cars.*.lock"]}}`)
	if f := c.want("error"); f.Code != "forbidden" || f.Field != "subjects" || fmt.Sprint(f.Refused) != "[orders.> cars.> cars.car.7.lock cars.*.lock]" {
		t.Errorf("answered with %+v, want forbidden", f)
	}
	for _, bad := range []string{"", "a..b", "a.>.b", "*x", "a b", "a\\u0000"} {
		if g.AnyName {
			break
		}
		c.send(`{"serve":{"subjects":["%s"]}}`, bad)
		if f := c.want("error"); f.Code != "bad_field" || f.Field != "subjects" {
			t.Errorf("%q is answered with %+v, want bad_field", bad, f)
		}
	}
	c.at.reach(t)
	d := s.ask(request.Request{Subject: "cars.car%2E7.lock"})
	c.send(`{"reply":{"request_id":%q,"data":true}}`, c.want("request").RequestID)
	answered(t, d, 200, "true")
	none := g.welcomed(t, s, Options{Recipient: "car.8", Token: s.Token(t, "car.8", time.Minute)})
	none.send(`{"serve":{"subjects":["orders.get"]}}`)
	if f := none.want("error"); f.Code != "forbidden" {
		t.Errorf("without a claim: %+v, want forbidden", f)
	}
}

func recipientIsAsked(t *testing.T, g *Gate, s *Server) {
	ask := func(device string) <-chan asked {
		done := make(chan asked, 1)
		go func() {
			a, err := s.far().Asks.AskRecipient(context.Background(), App, "driver-1", device, &request.Request{Data: []byte(`"where"`), ContentType: "application/json", Timeout: time.Minute})
			done <- asked{a, err}
		}()
		return done
	}
	failed(t, ask(""), request.ErrOffline)
	phone := g.welcomed(t, s, Options{Recipient: "driver-1", Device: "phone"})
	tablet := g.welcomed(t, s, Options{Recipient: "driver-1", Device: "tablet"})
	answers := func(c *conn, device string) {
		t.Helper()
		for {
			d := ask(device)
			select {
			case a := <-d:
				if s.other != nil && errors.Is(a.err, request.ErrOffline) {
					continue // the other node did not report in time that it holds the session
				}
				t.Fatalf("%q: %+v, %v", device, a.Answer, a.err)
			case f := <-c.coming():
				c.next1 = nil
				c.send(`{"reply":{"request_id":%q,"data":%q}}`, f.RequestID, f.RequestID)
				answered(t, d, 200, strconv.Quote(f.RequestID))
				return
			}
		}
	}
	answers(tablet, "")
	answers(phone, "phone")
	failed(t, ask("watch"), request.ErrOffline)
}
