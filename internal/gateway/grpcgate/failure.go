package grpcgate

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/server/problem"
)

func problemOf(err error) *godwitpb.Problem {
	p := problem.From(err)
	const up = time.Millisecond - 1 // a wait of less than a millisecond is a wait
	return &godwitpb.Problem{
		Type: p.Type, Title: p.Title, Status: int32(p.Status), Detail: p.Detail, Field: p.Field, RetryAfterMs: (p.RetryAfter + up).Milliseconds(),
	}
}

// problemTrailer has a failed call's problem as the HTTP API shows it. The status alone does not distinguish all problems.
const problemTrailer = "godwit-problem-bin"

// maxProblemDetail limits the detail in the trailer, in bytes: with the status and its details it must fit into the 8 KiB that clients take.
const maxProblemDetail = 1 << 10

// StatusError converts an error to a call's status, and adds its problem to the call's trailers.
func StatusError(ctx context.Context, err error) error {
	p := problem.From(err)
	shown := problemOf(p)
	shown.Detail = strings.ToValidUTF8(shown.Detail[:min(len(shown.Detail), maxProblemDetail)], "")
	if b, err := proto.Marshal(shown); err == nil {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(problemTrailer, string(b))) // fails only outside of a call
	}
	st := status.New(codeOf(p.Status), p.Detail)
	var details []protoadapt.MessageV1
	if p.Field != "" {
		details = append(details, protoadapt.MessageV1Of(&errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: p.Field, Description: p.Detail}},
		}))
	}
	if p.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(p.RetryAfter)}))
	}
	if len(details) > 0 {
		if with, err := st.WithDetails(details...); err == nil {
			st = with
		}
	}
	return st.Err()
}

func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusUnprocessableEntity:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.AlreadyExists
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	}
	return codes.Internal
}
