package godwit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	godwit "godwit.dev/godwit/clients/go"
)

func TestMessagesOfARealServer(t *testing.T) {
	s := run(t, nil)
	for name, opts := range map[string][]godwit.Option{
		"WebSocket": nil,
		"gRPC":      {godwit.WithGRPC(s.addrs().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := godwit.New(s.url(), append(opts, godwit.WithApp("demo"), godwit.WithAPIKey("dev"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := make(chan *godwit.Message, 10)
			topics := godwit.NewTopics(func(_ context.Context, m *godwit.Message) { got <- m })
			if err := topics.Subscribe("rides.*", "rides.>"); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			done := make(chan error, 1)
			connected := make(chan struct{}, 10)
			go func() {
				done <- c.Listen(ctx, "driver-1", nil, godwit.Subscriptions(topics), godwit.OnConnect(func(godwit.Welcome) { connected <- struct{}{} }))
			}()
			for round := range 2 {
				<-connected
				if err := topics.Active(ctx); err != nil {
					t.Fatal(err)
				}
				for _, m := range []godwit.Message{
					{Topic: "rides.oslo", Data: []byte(`{"n":1}`)}, {Topic: "rides.a%2Eb", Data: []byte("text ☂")}, {Topic: "rides.x.y", Data: []byte("\xff\x00")},
				} {
					if err := c.PublishMessage(ctx, m); err != nil {
						t.Fatal(err)
					}
					if g := <-got; g.Topic != m.Topic || string(g.Data) != string(m.Data) {
						t.Errorf("got %s %q, want %s %q", g.Topic, g.Data, m.Topic, m.Data)
					}
				}
				if round == 0 { // the server ends the session; the client subscribes again by itself
					if err := c.Call(ctx, godwit.Call{Method: "DELETE", Path: "/v1/recipients/driver-1/sessions"}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

func TestABadTopicIsToldBeforeItIsSent(t *testing.T) {
	c, err := godwit.New("http://127.0.0.1:1", godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.PublishMessage(t.Context(), godwit.Message{Topic: "a..b"}); err == nil || fmt.Sprint(err) == "" {
		t.Error("a topic with an empty token was sent")
	}
}
