package blackbox

import (
	"context"
	"encoding/json"
	"time"

	"godwit.dev/godwit/api/godwitpb"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// wsLink is a WebSocket connection of github.com/coder/websocket.
type wsLink struct {
	conn  *websocket.Conn
	proto bool
}

func dialWebSocket(ctx context.Context, addr string, h Hello, protobuf bool) (Link, error) {
	sub := "godwit.v1.json"
	if protobuf {
		sub = "godwit.v1.proto"
	}
	conn, resp, err := websocket.Dial(ctx, "ws://"+addr+"/v1/connect", &websocket.DialOptions{Subprotocols: []string{sub}})
	if err != nil {
		return nil, err
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	conn.SetReadLimit(1 << 20)
	l := &wsLink{conn, protobuf}
	if err := l.send(ctx, helloFrame(h), protoHello(h)); err != nil {
		l.Cut()
		return nil, err
	}
	return l, nil
}

func (l *wsLink) send(ctx context.Context, asJSON any, asProto *godwitpb.ClientFrame) error {
	if l.proto {
		b, err := proto.Marshal(asProto)
		if err != nil {
			return err
		}
		return l.conn.Write(ctx, websocket.MessageBinary, b)
	}
	b, err := json.Marshal(asJSON)
	if err != nil {
		return err
	}
	return l.conn.Write(ctx, websocket.MessageText, b)
}

func (l *wsLink) Next(ctx context.Context) (*Frame, error) {
	_, b, err := l.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	if l.proto {
		var m godwitpb.ServerFrame
		if err := proto.Unmarshal(b, &m); err != nil {
			return nil, err
		}
		return fromProto(&m), nil
	}
	var f Frame
	return &f, json.Unmarshal(b, &f)
}

func (l *wsLink) Ack(ctx context.Context, ids ...string) error {
	return l.send(ctx, ackFrame(ids), protoAck(ids))
}

func (l *wsLink) Cut() { l.conn.CloseNow() }

// grpcLink is a stream of grpc-go on a connection of its own.
type grpcLink struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[godwitpb.ClientFrame, godwitpb.ServerFrame]
	frames chan *Frame
	cancel context.CancelFunc
	err    error // why frames was closed
}

func dialGRPC(ctx context.Context, addr string, h Hello) (Link, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := godwitpb.NewClientClient(conn).Connect(streamCtx)
	if err == nil {
		err = stream.Send(protoHello(h))
	}
	if err != nil {
		cancel()
		conn.Close()
		return nil, err
	}
	l := &grpcLink{conn: conn, stream: stream, frames: make(chan *Frame), cancel: cancel}
	go l.read(streamCtx)
	return l, nil
}

// read exists because a gRPC stream's Recv takes no context of its own.
func (l *grpcLink) read(ctx context.Context) {
	defer close(l.frames)
	for {
		m, err := l.stream.Recv()
		if err != nil {
			l.err = err
			return
		}
		select {
		case l.frames <- fromProto(m):
		case <-ctx.Done():
			l.err = ctx.Err()
			return
		}
	}
}

func (l *grpcLink) Next(ctx context.Context) (*Frame, error) {
	select {
	case f, ok := <-l.frames:
		if !ok {
			return nil, l.err
		}
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *grpcLink) Ack(_ context.Context, ids ...string) error { return l.stream.Send(protoAck(ids)) }

func (l *grpcLink) Cut() {
	l.conn.Close()
	l.cancel()
}

func protoHello(h Hello) *godwitpb.ClientFrame {
	return &godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Hello{Hello: &godwitpb.Hello{
		App: h.App, Recipient: h.Recipient, Device: h.Device, Token: h.Token, Window: uint32(h.Window),
	}}}
}

func protoAck(ids []string) *godwitpb.ClientFrame {
	return &godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Ack{Ack: &godwitpb.Ack{Ids: ids}}}
}

func inboxOf(in *godwitpb.Inbox) *Inbox {
	if in == nil {
		return nil
	}
	got := &Inbox{Unseen: int(in.GetUnseen()), Unread: int(in.GetUnread()), Changed: in.GetChanged()}
	for _, m := range in.GetMarked() {
		got.Marked = append(got.Marked, InboxMark{m.GetId(), m.GetSeen(), m.GetRead(), m.GetArchived(), m.GetPinned(), m.GetAnswered()})
	}
	return got
}

func fromProto(m *godwitpb.ServerFrame) *Frame {
	f := &Frame{}
	switch v := m.GetFrame().(type) {
	case *godwitpb.ServerFrame_Welcome:
		f.Welcome = &Welcome{Session: v.Welcome.GetSession(), App: v.Welcome.GetApp(), Recipient: v.Welcome.GetRecipient(), Inbox: inboxOf(v.Welcome.GetInbox())}
	case *godwitpb.ServerFrame_Notification:
		n := v.Notification
		priority := map[godwitpb.Priority]string{
			godwitpb.Priority_PRIORITY_HIGH: "high", godwitpb.Priority_PRIORITY_LOW: "low",
		}[n.GetPriority()]
		if priority == "" {
			priority = "normal"
		}
		f.Notification = &Notification{
			ID: n.GetId(), Title: n.GetTitle(), Body: n.GetBody(), Category: n.GetCategory(), Seq: n.GetSeq(), Attempt: n.GetAttempt(),
			Priority: priority, Data: n.GetData(), ExpiresAt: time.UnixMilli(n.GetExpiresAtMs()),
		}
	case *godwitpb.ServerFrame_Inbox:
		f.Inbox = inboxOf(v.Inbox)
	case *godwitpb.ServerFrame_Recall:
		f.Recall = &struct{ IDs []string }{v.Recall.GetIds()}
	case *godwitpb.ServerFrame_Goodbye:
		f.Goodbye = &struct{ Reason string }{v.Goodbye.GetReason()}
	case *godwitpb.ServerFrame_Error:
		f.Error = &struct{ Code, Message, Field string }{v.Error.GetCode(), v.Error.GetMessage(), v.Error.GetField()}
	case *godwitpb.ServerFrame_Pong:
		f.Pong = &struct{}{}
	}
	return f
}
