package godwit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
)

type hostileCase struct {
	Name, Kind, Want, Reason string
	JSON                     []json.RawMessage
	Bytes, Proto             []byte
	isProto                  bool
}

// UnmarshalJSON notes whether the frame is JSON or protobuf: a protobuf frame may be empty.
func (c *hostileCase) UnmarshalJSON(b []byte) error {
	type plain hostileCase
	c.isProto = bytes.Contains(b, []byte(`"proto":`))
	return json.Unmarshal(b, (*plain)(c))
}

func (c *hostileCase) frame(t *testing.T) []byte {
	if c.JSON == nil {
		return append(c.Bytes, c.Proto...)
	}
	var whole []byte
	for _, piece := range c.JSON {
		var text string
		times := 1
		if piece[0] == '[' {
			if err := json.Unmarshal(piece, &[]any{&text, &times}); err != nil {
				t.Fatal(err)
			}
		} else if err := json.Unmarshal(piece, &text); err != nil {
			t.Fatal(err)
		}
		whole = append(whole, strings.Repeat(text, times)...)
	}
	return whole
}

// wire is the server's end of one connection.
type wire struct {
	send func([]byte) error
	recv func() (*clientFrame, error)
}

func jsonWire(ctx context.Context, ws *websocket.Conn) wire {
	return wire{
		send: func(b []byte) error { return ws.Write(ctx, websocket.MessageText, b) },
		recv: func() (*clientFrame, error) {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return nil, err
			}
			f := new(clientFrame)
			return f, json.Unmarshal(b, f)
		},
	}
}

// rawCodec lets a server send any bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func protoWire(stream grpc.ServerStream) wire {
	return wire{
		send: func(b []byte) error { return stream.SendMsg(&b) },
		recv: func() (*clientFrame, error) {
			var b []byte
			if err := stream.RecvMsg(&b); err != nil {
				return nil, err
			}
			var p pb.ClientFrame
			if err := proto.Unmarshal(b, &p); err != nil {
				return nil, err
			}
			f := &clientFrame{}
			if a := p.GetAck(); a != nil {
				f.Ack = &ids{a.Ids}
			}
			if n := p.GetNack(); n != nil {
				f.Nack = &nack{n.Ids, wireTime(millis(n.AfterMs)), n.Reason}
			}
			if a := p.GetObjectAck(); a != nil {
				f.ObjectAck = &objectAck{a.Object, a.Group, Version(a.Version)}
			}
			if p.GetPing() != nil {
				f.Ping = &ping{}
			}
			return f, nil
		},
	}
}

// verdict is a client's answer.
type verdict struct {
	acks, nacks, objects map[string]string
}

// playHostile sends the hostile frame, then valid ones that the client must still handle, and collects the answers.
func playHostile(w wire, sound []byte, frames ...[]byte) (v verdict) {
	v = verdict{map[string]string{}, map[string]string{}, map[string]string{}}
	if _, err := w.recv(); err != nil {
		return v
	}
	for _, f := range frames {
		if w.send(f) != nil {
			return v
		}
	}
	for {
		f, err := w.recv()
		if err != nil {
			return v
		}
		switch {
		case f.Ack != nil:
			for _, id := range f.Ack.IDs {
				v.acks[id] = "acknowledged"
			}
		case f.Nack != nil:
			for _, id := range f.Nack.IDs {
				v.nacks[id] = f.Nack.Reason
			}
		case f.ObjectAck != nil:
			v.objects[f.ObjectAck.Object] = f.ObjectAck.Version.String()
		case f.Ping != nil:
			if w.send(sound) != nil {
				return v
			}
		}
	}
}

var jsonBehind = [][]byte{
	[]byte(`{"notification":{"id":"behind","seq":2,"data":{"ok":true}}}`),
	[]byte(`{"object":{"group":"site","object":"behind","version":"1"}}`),
}

func protoFrame(t *testing.T, f *pb.ServerFrame) []byte {
	b, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// runHostile runs a server for one case and returns how a client reacts.
func runHostile(t *testing.T, c *hostileCase) (v verdict, told []error, handled map[string]*Notification) {
	var dials atomic.Int32
	over := make(chan verdict, 10)
	opts := []Option{WithToken("t")}
	url := "http://example.org"
	if c.isProto {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			dials.Add(1)
			frames := [][]byte{
				protoFrame(t, &pb.ServerFrame{Frame: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{HeartbeatMs: 30_000}}}),
				c.frame(t),
				protoFrame(t, &pb.ServerFrame{Frame: &pb.ServerFrame_Notification{Notification: &pb.Notification{Id: "behind"}}}),
				protoFrame(t, &pb.ServerFrame{Frame: &pb.ServerFrame_Object{Object: &pb.Object{Group: "site", Object: "behind", Version: 1}}}),
			}
			pong := protoFrame(t, &pb.ServerFrame{Frame: &pb.ServerFrame_Pong{Pong: &pb.Pong{}}})
			over <- playHostile(protoWire(stream), pong, frames...)
			return nil
		}))
		go func() { _ = s.Serve(lis) }()
		defer s.Stop()
		opts = append(opts, WithGRPC(lis.Addr().String()))
	} else {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			dials.Add(1)
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"godwit.v1.json"}})
			if err != nil {
				t.Error(err)
				return
			}
			frames := append([][]byte{[]byte(`{"welcome":{"session":"s","heartbeat":"30s"}}`), c.frame(t)}, jsonBehind...)
			over <- playHostile(jsonWire(r.Context(), ws), []byte(`{"pong":{}}`), frames...)
			_ = ws.CloseNow()
		}))
		defer s.Close()
		url = s.URL
	}
	client, err := New(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	objects, err := NewObjects("site")
	if err != nil {
		t.Fatal(err)
	}
	handled = map[string]*Notification{}
	var mu sync.Mutex
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var behind atomic.Int32
	enough := func() {
		if behind.Add(1) == 2 {
			stop()
		}
	}
	if err := objects.Register(func(_ context.Context, s *Signal) error {
		if s.Object == "behind" {
			enough()
		}
		return nil
	}, "hostile", "behind"); err != nil {
		t.Fatal(err)
	}
	err = client.Listen(ctx, "driver-42", func(_ context.Context, n *Notification) error {
		handled[n.ID] = n
		if n.ID == "behind" {
			enough()
		}
		return nil
	}, Follow(objects), OnError(func(err error) {
		mu.Lock()
		told = append(told, err)
		mu.Unlock()
	}))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("listening ended with %v", err)
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("the client connected %d times", n)
	}
	return <-over, told, handled
}

func TestVectorHostile(t *testing.T) {
	for _, c := range vectors[hostileCase](t, "hostile") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			v, told, handled := runHostile(t, &c)
			if v.acks["behind"] == "" || v.objects["behind"] == "" {
				t.Fatalf("what was behind was not acknowledged: %v", v)
			}
			reason, nacked := v.nacks["hostile"]
			good := v.acks["hostile"] != ""
			if c.Kind == "object" {
				good = v.objects["hostile"] != ""
			}
			want := c.Want
			if want == "either" && good {
				want = "handled"
			} else if want == "either" {
				want = map[bool]string{true: "skipped", false: "nacked"}[c.Kind == "object"]
			}
			if good != (want == "handled") || nacked != (want == "nacked") || len(v.nacks) > 1 {
				t.Errorf("want it %s, got %v, told %v", c.Want, v, told)
			}
			if nacked && !strings.HasPrefix(reason, c.Reason+": ") {
				t.Errorf("the reason is %q, want one about %s", reason, c.Reason)
			}
			if n := handled["hostile"]; n != nil && !good {
				t.Errorf("the handler got it")
			}
			var unread *UndecodableError
			switch {
			case want == "handled" && len(told) > 0:
				t.Errorf("told %v", told)
			case want == "handled" || c.Reason == "":
			case len(told) != 1 || !errors.As(told[0], &unread) || !strings.HasPrefix(unread.Reason, c.Reason+": "):
				t.Errorf("told %v, want one error about %s", told, c.Reason)
			}
		})
	}
}

func TestUnreadableNotificationIsAskedForLaterEachTime(t *testing.T) {
	for attempt, want := range map[string]string{"1": "10s", "2": "20s", "5": "2m40s", "6": "5m0s", "4000000000": "5m0s", "null": "5m0s"} {
		f := decodeJSON(fmt.Appendf(nil, `{"notification":{"id":"a","title":7,"attempt":%s}}`, attempt))
		if f.Unread == nil || f.Unread.pause().String() != want {
			t.Errorf("attempt %s: got %v, want a pause of %s", attempt, f.Unread, want)
		}
	}
}
