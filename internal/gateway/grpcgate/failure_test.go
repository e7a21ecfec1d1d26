package grpcgate_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/notification"
)

// complaining refuses every request with a long text that is not ASCII.
type complaining struct{}

func (complaining) Ask(context.Context, string, *request.Request) (*request.Answer, error) {
	return nil, notification.BadField("subject", "%s", strings.Repeat("é", 8<<10))
}

func (c complaining) AskRecipient(ctx context.Context, app, _, _ string, r *request.Request) (*request.Answer, error) {
	return c.Ask(ctx, app, r)
}

// Clients take 8 KiB of trailers by default; the test sets that limit for grpc-go, whose own is higher.
func TestLongProblemReachesItsCaller(t *testing.T) {
	var g *gate
	gatetest.Start(t, func(s *gatetest.Server) {
		g = open(t, s, nil, func(c *grpcgate.Config) { c.Requests = complaining{} })
	})
	g.dial = append(g.dial, grpc.WithMaxHeaderListSize(8<<10))
	var trailer metadata.MD
	_, err := pb.NewPublisherClient(g.conn(t)).Ask(keyed(t.Context(), access.DevKey), &pb.AskRequest{Subject: "a"}, grpc.Trailer(&trailer))
	wantCode(t, err, codes.InvalidArgument)
	var p pb.Problem
	if list := trailer.Get("godwit-problem-bin"); len(list) != 1 || proto.Unmarshal([]byte(list[0]), &p) != nil || p.GetField() != "subject" || !strings.Contains(p.GetDetail(), "éé") {
		t.Errorf("the problem is %v", &p)
	}
}
