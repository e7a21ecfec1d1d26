package grpcgate

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestDetailsOfAStatusAreSentUpToTheirLimit(t *testing.T) {
	of := func(reason int) *status.Status {
		st, err := status.New(codes.Internal, "x").WithDetails(&errdetails.ErrorInfo{Reason: strings.Repeat("r", reason)})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	const near = maxStatusDetails - 100
	full := near + maxStatusDetails - proto.Size(of(near).Proto()) // protobuf encodes both lengths with the same number of bytes
	for reason, sent := range map[int]bool{full: true, full + 1: false} {
		st := of(reason)
		if size := proto.Size(st.Proto()); (size == maxStatusDetails) != sent {
			t.Fatalf("the details have %d bytes", size)
		}
		fields := statusFields(nil, st)
		if got := slices.ContainsFunc(fields, func(f hpack.HeaderField) bool { return f.Name == "grpc-status-details-bin" }); got != sent {
			t.Errorf("details of %d bytes are sent: %t", proto.Size(st.Proto()), got)
		}
	}
}
