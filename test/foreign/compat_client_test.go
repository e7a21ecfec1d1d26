package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/test/blackbox"
)

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// app is a client's stream.
type app struct {
	t      testing.TB
	stream grpc.ClientStream
	cut    context.CancelFunc
	got    chan payload
	ended  chan error // how the stream ended, once
}

// connect opens a stream like the Android app, whose first message acknowledges nothing. It returns when the service has accepted the
// stream.
func connect(t testing.TB, addr, method string, md ...string) *app {
	t.Helper()
	a := open(t, addr, method, md...)
	if _, err := a.stream.Header(); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return a
}

// open is connect without waiting.
func open(t testing.TB, addr, method string, md ...string) *app {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), md...))
	t.Cleanup(cancel)
	stream, err := dial(t, addr).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	a := &app{t: t, stream: stream, cut: cancel, got: make(chan payload, 4096), ended: make(chan error, 1)}
	if err := stream.SendMsg(ackOf("")); err != nil && !errors.Is(err, io.EOF) { // EOF: the stream was refused already
		t.Fatal(err)
	}
	if method == serverStreamPayload {
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	go a.read()
	return a
}

func (a *app) read() {
	for {
		m := message("NotificationPayload")
		if err := a.stream.RecvMsg(m); err != nil {
			a.ended <- err
			return
		}
		a.got <- readPayload(m)
	}
}

// next is what comes next.
func (a *app) next() payload {
	a.t.Helper()
	select {
	case p := <-a.got:
		return p
	case err := <-a.ended:
		a.t.Fatalf("the stream ended: %v", err)
	case <-time.After(blackbox.Patience):
		a.t.Fatal("nothing came")
	}
	return payload{}
}

// until reads until a notification with an id arrives, and returns it with all notifications before it.
func (a *app) until(id string) (p payload, before []payload) {
	a.t.Helper()
	for {
		p = a.next()
		if p.id == id {
			return p, before
		}
		before = append(before, p)
	}
}

// all reads until each of these ids has arrived at least once. No other id may arrive.
func (a *app) all(ids ...string) {
	a.t.Helper()
	missing := make(map[string]bool)
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		p := a.next()
		if _, ok := missing[p.id]; !ok && !contains(ids, p.id) {
			a.t.Fatalf("%s came, which is not among %v", p.id, ids)
		}
		delete(missing, p.id)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (a *app) ack(ids ...string) {
	a.t.Helper()
	for _, id := range ids {
		if err := a.stream.SendMsg(ackOf(id)); err != nil {
			a.t.Fatal(err)
		}
	}
}

// end waits until the stream has ended and returns its status.
func (a *app) end() codes.Code {
	a.t.Helper()
	for {
		select {
		case <-a.got:
		case err := <-a.ended:
			if errors.Is(err, io.EOF) {
				return codes.OK
			}
			return status.Code(err)
		case <-time.After(blackbox.Patience):
			a.t.Fatal("the stream did not end")
		}
	}
}

// refused returns the status of a refused call.
func refused(t testing.TB, addr, method string, md ...string) codes.Code {
	t.Helper()
	return open(t, addr, method, md...).end()
}

// quote calls one of the quote RPCs with one request and returns its answer.
func quote(ctx context.Context, t testing.TB, addr, method string, request proto.Message, md ...string) (st, reason, search string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, md...), blackbox.Patience)
	defer cancel()
	answer := message("QuoteResponseWithId")
	if method == quoteRespond {
		answer = message("QuoteResponse")
	}
	conn := dial(t, addr)
	if method == quoteWithID {
		err = conn.Invoke(ctx, method, request, answer, grpc.WaitForReady(true))
	} else {
		err = quoteStream(ctx, conn, method, request, answer)
	}
	if err != nil {
		return "", "", "", err
	}
	if method != quoteRespond {
		search = text(answer, "search_request_id")
	}
	return text(answer, "status"), text(answer, "reason"), search, nil
}

func quoteStream(ctx context.Context, conn *grpc.ClientConn, method string, request, answer proto.Message) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // EOF: the stream has ended, and the answer has the reason
		return fmt.Errorf("send: %w", err)
	}
	if err := stream.RecvMsg(answer); err != nil {
		return err
	}
	return stream.CloseSend()
}
