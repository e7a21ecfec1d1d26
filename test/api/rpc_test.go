package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/test/blackbox"
)

// rpcWorld is a server with a client of its gRPC listener.
type rpcWorld struct {
	*testing.T
	s   *blackbox.Server
	api *blackbox.API
	cc  *grpc.ClientConn
	pub godwitpb.PublisherClient
}

func startRPC(t *testing.T) *rpcWorld {
	t.Helper()
	w := &rpcWorld{T: t, s: blackbox.Start(t, blackbox.Dev(), blackbox.Plain())}
	w.api = w.s.API()
	cc, err := grpc.NewClient(w.s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	w.cc, w.pub = cc, godwitpb.NewPublisherClient(cc)
	return w
}

// key makes a key with roles.
func (w *rpcWorld) key(roles ...string) string {
	w.Helper()
	var made struct{ Key string }
	w.api.Call(w, http.MethodPost, "/v1/keys", map[string]any{"name": strings.Join(roles, "-"), "roles": roles}, &made)
	return made.Key
}

func withKey(ctx context.Context, key string, more ...string) context.Context {
	if key != "" {
		more = append(more, "authorization", "Bearer "+key)
	}
	return metadata.AppendToOutgoingContext(ctx, more...)
}

// problemOf returns the problem in a failed call's trailers.
func problemOf(t testing.TB, trailer metadata.MD) (p blackbox.Problem) {
	t.Helper()
	list := trailer.Get("godwit-problem-bin")
	if len(list) != 1 {
		t.Fatalf("the trailers have %d problems: %v", len(list), trailer)
	}
	var m godwitpb.Problem
	if err := proto.Unmarshal([]byte(list[0]), &m); err != nil {
		t.Fatal(err)
	}
	return blackbox.Problem{Type: m.GetType(), Title: m.GetTitle(), Detail: m.GetDetail(), Field: m.GetField(), Status: int(m.GetStatus())}
}

// refusals are calls that fail, over HTTP and as a call of godwit.v1.Publisher.
var refusals = []struct {
	name, method, path string
	body               any
	call               func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error
	code               codes.Code
}{
	{"an object without a group", http.MethodPut, "/v1/objects/a%20b/o", map[string]any{}, putting(&godwitpb.PutObjectRequest{Group: "a b", Object: "o"}), codes.InvalidArgument},
	{"a long payload", http.MethodPut, "/v1/objects/g/o", map[string]any{"payload": strings.Repeat("x", 4097), "content_type": "text/plain"}, putting(&godwitpb.PutObjectRequest{Group: "g", Object: "o", Payload: []byte(strings.Repeat("x", 4097)), ContentType: "text/plain"}), codes.InvalidArgument},
	{"an unknown version with a payload", http.MethodPut, "/v1/objects/g/o", map[string]any{"unknown": true, "payload": 1}, putting(&godwitpb.PutObjectRequest{Group: "g", Object: "o", Payload: []byte("1"), Unknown: true}), codes.InvalidArgument},
	{"a bad source", http.MethodPut, "/v1/objects/g/o", map[string]any{"source": "a/b/c"}, putting(&godwitpb.PutObjectRequest{Group: "g", Object: "o", Source: "a/b/c"}), codes.InvalidArgument},
	{"deletion of an object never put", http.MethodDelete, "/v1/objects/g/never", nil, func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.DeleteObject(ctx, &godwitpb.DeleteObjectRequest{Group: "g", Object: "never"}, o...)
		return err
	}, codes.NotFound},
	{"a topic with a wildcard", http.MethodPost, "/v1/topics/rides.*", []byte("1"), func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.PublishMessage(ctx, &godwitpb.PublishMessageRequest{Topic: "rides.*", Data: []byte("1")}, o...)
		return err
	}, codes.InvalidArgument},
	{"a subject that nobody serves", http.MethodPost, "/v1/requests/nobody", []byte("1"), asking(&godwitpb.AskRequest{Subject: "nobody", Data: []byte("1")}), codes.Unavailable},
	{"a timeout that is too long", http.MethodPost, "/v1/requests/nobody?timeout=61s", []byte("1"), asking(&godwitpb.AskRequest{Subject: "nobody", TimeoutMs: 61_000}), codes.InvalidArgument},
	{"a question that is too long", http.MethodPost, "/v1/requests/nobody", make([]byte, 1<<20+1), asking(&godwitpb.AskRequest{Subject: "nobody", Data: make([]byte, 1<<20+1)}), codes.InvalidArgument},
	{"a recipient that is not connected", http.MethodPost, "/v1/recipients/r/requests", []byte("1"), func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.AskRecipient(ctx, &godwitpb.AskRecipientRequest{Recipient: "r", Data: []byte("1")}, o...)
		return err
	}, codes.Unavailable},
	{"the status of a notification that there is not", http.MethodGet, "/v1/notifications/none?to=r", nil, func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.Status(ctx, &godwitpb.StatusRequest{Id: "none", To: "r"}, o...)
		return err
	}, codes.NotFound},
	{"the recall of a notification that there is not", http.MethodDelete, "/v1/notifications/none?to=r", nil, func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.Recall(ctx, &godwitpb.RecallRequest{Id: "none", To: "r"}, o...)
		return err
	}, codes.NotFound},
	{"a recall of a bad name", http.MethodDelete, "/v1/notifications/a%20b", nil, func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.Recall(ctx, &godwitpb.RecallRequest{Id: "a b"}, o...)
		return err
	}, codes.InvalidArgument},
}

func putting(req *godwitpb.PutObjectRequest) func(context.Context, godwitpb.PublisherClient, ...grpc.CallOption) error {
	return func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.PutObject(ctx, req, o...)
		return err
	}
}

func asking(req *godwitpb.AskRequest) func(context.Context, godwitpb.PublisherClient, ...grpc.CallOption) error {
	return func(ctx context.Context, c godwitpb.PublisherClient, o ...grpc.CallOption) error {
		_, err := c.Ask(ctx, req, o...)
		return err
	}
}

func TestCallsOfPublisherFailAsHTTPCallsDo(t *testing.T) {
	t.Parallel()
	w := startRPC(t)
	worker := w.key("worker")
	for _, c := range refusals {
		for secret, code := range map[string]codes.Code{"": codes.Unauthenticated, "guess": codes.Unauthenticated, worker: codes.PermissionDenied, dev: c.code} {
			api := w.s.API(secret)
			got, err := api.Do(t.Context(), c.method, c.path, c.body)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var trailer metadata.MD
			err = c.call(withKey(t.Context(), secret), w.pub, grpc.Trailer(&trailer))
			if status.Code(err) != code {
				t.Errorf("%s with the key %q: %v, want %s", c.name, secret, err, code)
				continue
			}
			if over, want := problemOf(t, trailer), got.Problem(); over != want {
				t.Errorf("%s with the key %q: the problem is %+v, over HTTP it is %+v", c.name, secret, over, want)
			}
		}
	}
}

func TestBackEndDoesItsWorkByRPCAlone(t *testing.T) {
	t.Parallel()
	w := startRPC(t)
	ctx := withKey(t.Context(), dev)
	answering := make(chan struct{})
	client, err := godwit.New("http://"+w.s.HTTP, godwit.WithAPIKey(dev))
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Serve(serving, "worker", []string{"double"}, func(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
			return &godwit.Answer{
				Status: 202, Data: append(r.Data, r.Data...), ContentType: "text/plain",
				Header: http.Header{"X-Trace": r.Header["Traceparent"], "X-Two": {"a", "b"}, "Clear-Site-Data": {"*"}},
			}, nil
		}, godwit.OnServing(func() { close(answering) }))
	}()
	defer func() { stop(); <-ended }()
	session := w.s.Connect(t, "ws", blackbox.Hello{Recipient: "unit", Device: "d"})

	// Objects: a version, one that is not above it, unknown, deleted.
	for i, c := range []struct {
		req     *godwitpb.PutObjectRequest
		version int64
		changed bool
	}{
		{&godwitpb.PutObjectRequest{Version: 7, Payload: []byte(`{"a":1}`), Source: "unit/d"}, 7, true},
		{&godwitpb.PutObjectRequest{Version: 7, Payload: []byte("other")}, 7, false},
		{&godwitpb.PutObjectRequest{Payload: []byte("\xff")}, 8, true},
		{&godwitpb.PutObjectRequest{Version: 12, Unknown: true}, 12, true},
	} {
		c.req.Group, c.req.Object = "region-1", "camera"
		got, err := w.pub.PutObject(ctx, c.req)
		if err != nil || got.GetVersion() != c.version || got.GetChanged() != c.changed {
			t.Errorf("put %d: %v, %v; want version %d, changed %v", i, got, err, c.version, c.changed)
		}
	}
	if got, err := w.pub.DeleteObject(ctx, &godwitpb.DeleteObjectRequest{Group: "region-1", Object: "camera"}); err != nil || got.GetVersion() != 12 || got.GetChanged() {
		t.Errorf("deletion of an unknown object: %v, %v", got, err)
	}
	var o struct {
		Version string
		Unknown bool
	}
	if w.api.Call(t, http.MethodGet, "/v1/objects/region-1/camera", nil, &o); o.Version != "12" || !o.Unknown {
		t.Errorf("the object is %+v over HTTP", o)
	}

	// An idempotency key names a publish over both ways in.
	body := &godwitpb.PublishRequest{To: []string{"unit"}, Title: "Hi", Priority: godwitpb.Priority_PRIORITY_HIGH, ReplyByMs: time.Hour.Milliseconds()}
	sent, err := w.pub.Publish(withKey(t.Context(), dev, "idempotency-key", "once"), body)
	if err != nil || sent.GetResults()[0].GetDuplicate() {
		t.Fatalf("publish: %v, %v", sent, err)
	}
	id := sent.GetResults()[0].GetId()
	again, err := w.pub.Publish(withKey(t.Context(), dev, "idempotency-key", "once"), body)
	if err != nil || !again.GetResults()[0].GetDuplicate() || again.GetResults()[0].GetId() != id {
		t.Errorf("again under the idempotency key: %v, %v; want a duplicate of %s", again, err, id)
	}
	n, err := blackbox.NextNotification(t.Context(), session)
	if err != nil || n.ID != id {
		t.Fatalf("the session gets %+v, %v", n, err)
	}
	w.sameStatus(ctx, id, "unit")
	if err := session.Ack(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "acknowledged", func() error { return w.api.WantState(t.Context(), id, "unit", "acked") })
	w.sameStatus(ctx, id, "unit")

	// A recall, of copies to several, one of them with a waiting step.
	w.api.Call(t, http.MethodPut, "/v1/channels/webhook", map[string]any{}, nil)
	if _, err := w.pub.Publish(ctx, &godwitpb.PublishRequest{To: []string{"a", "b"}, Id: "both", Title: "x", Escalate: []*godwitpb.EscalationStep{{Channel: "live"}, {Channel: "webhook", AfterMs: 3_600_000}}}); err != nil {
		t.Fatal(err)
	}
	w.sameStatus(ctx, "both", "a")
	if got, err := w.pub.Recall(ctx, &godwitpb.RecallRequest{Id: "both", To: "a"}); err != nil || got.GetRecalled() != 1 {
		t.Errorf("recall of one: %v, %v", got, err)
	}
	if got, err := w.pub.Recall(ctx, &godwitpb.RecallRequest{Id: "both"}); err != nil || got.GetRecalled() != 1 {
		t.Errorf("recall of the rest: %v, %v", got, err)
	}
	got, err := w.pub.Status(ctx, &godwitpb.StatusRequest{Id: "both"})
	if err != nil || len(got.GetItems()) != 2 || got.GetItems()[0].GetStatus() != "recalled" || got.GetItems()[1].GetStatus() != "recalled" {
		t.Errorf("after the recall: %v, %v", got, err)
	}

	// Requests and messages.
	<-answering
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	a, err := w.pub.Ask(withKey(t.Context(), dev, "traceparent", trace), &godwitpb.AskRequest{Subject: "double", Data: []byte("ha"), ContentType: "text/plain"})
	if err != nil || a.GetStatus() != 202 || string(a.GetData()) != "haha" || a.GetContentType() != "text/plain" {
		t.Errorf("the answer is %v, %v", a, err)
	}
	if h := fmt.Sprint(headers(a.GetHeaders())); h != fmt.Sprint(http.Header{"X-Trace": {trace}, "X-Two": {"a", "b"}}) {
		t.Errorf("the answer's headers are %s", h)
	}
	r, err := w.pub.AskRecipient(ctx, &godwitpb.AskRecipientRequest{Recipient: "worker", Subject: "double", Data: []byte("ho")})
	if err != nil || string(r.GetData()) != "hoho" {
		t.Errorf("the recipient's answer is %v, %v", r, err)
	}
	if _, err := w.pub.PublishMessage(ctx, &godwitpb.PublishMessageRequest{Topic: "rides.new", Data: []byte("1")}); err != nil {
		t.Errorf("publish to a topic: %v", err)
	}
}

func headers(list []*godwitpb.HeaderField) http.Header {
	h := make(http.Header)
	for _, f := range list {
		h[f.GetName()] = append(h[f.GetName()], f.GetValue())
	}
	return h
}

// sameStatus compares the status of a copy with the one over HTTP. The copy may change between the two calls, so it compares until they agree.
func (w *rpcWorld) sameStatus(ctx context.Context, id, to string) {
	w.Helper()
	blackbox.Eventually(w, "the same status of "+id+" by RPC and over HTTP", func() error {
		got, err := w.pub.Status(ctx, &godwitpb.StatusRequest{Id: id, To: to})
		if err != nil || len(got.GetItems()) != 1 {
			return fmt.Errorf("%v, %w", got, err)
		}
		var want map[string]any
		w.api.Call(w, http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil, &want)
		have, err := json.Marshal(asHTTP(got.GetItems()[0]))
		if err != nil {
			return err
		}
		wanted, err := json.Marshal(want)
		if err != nil {
			return err
		}
		if string(have) != string(wanted) {
			return fmt.Errorf("it is\n%s, over HTTP it is\n%s", have, wanted)
		}
		return nil
	})
}

// asHTTP writes a status as the HTTP API does.
func asHTTP(s *godwitpb.NotificationStatus) map[string]any {
	moment := func(ms int64) any {
		if ms == 0 {
			return nil
		}
		return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	word := func(enum fmt.Stringer, prefix string) string {
		return strings.ToLower(strings.TrimPrefix(enum.String(), prefix))
	}
	m := map[string]any{
		"id": s.GetId(), "to": s.GetTo(), "status": s.GetStatus(), "priority": word(s.GetPriority(), "PRIORITY_"), "ack": word(s.GetAck(), "ACK_MODE_"), "seq": s.GetSeq(),
		"created_at": moment(s.GetCreatedAtMs()), "send_at": moment(s.GetSendAtMs()), "expires_at": moment(s.GetExpiresAtMs()), "delivered_at": moment(s.GetDeliveredAtMs()),
		"settled_at": moment(s.GetSettledAtMs()), "acked_at": moment(s.GetAckedAtMs()), "latency_ms": s.LatencyMs, "attempts": s.GetAttempts(), "reply": nil,
	}
	var channels []map[string]any
	for _, c := range s.GetChannels() {
		v := map[string]any{"channel": c.GetChannel(), "status": c.GetStatus(), "at": moment(c.GetAtMs()), "detail": nil}
		if c.GetDetail() != "" {
			v["detail"] = c.GetDetail()
		}
		if c.Step != nil {
			v["step"] = c.GetStep()
		}
		for name, value := range map[string]string{"endpoint": c.GetEndpoint(), "to": c.GetTo()} {
			if value != "" {
				v[name] = value
			}
		}
		channels = append(channels, v)
	}
	m["channels"] = channels
	return m
}
