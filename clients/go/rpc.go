package godwit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "godwit.dev/godwit/api/godwitpb"
)

// WithRPC makes back ends' calls use gRPC at the address of WithGRPC instead of HTTP: Publish, PublishTo, PublishBatch, Status, Recall,
// PutObject, UnknownObject, DeleteObject, PublishMessage, Ask and AskRecipient. They share one connection, which Close closes. Limits,
// errors and retries are the same; the other methods still use HTTP.
func WithRPC() Option { return func(c *Client) { c.useRPC = true } }

// rpc calls godwit.v1.Publisher.
type rpc struct {
	cc  *grpc.ClientConn
	pub pb.PublisherClient
}

func (c *Client) openRPC() error {
	if c.grpcAddr == "" {
		return errors.New("godwit: WithRPC needs the server's gRPC address: add WithGRPC")
	}
	cc, err := c.newGRPC()
	if err != nil {
		return fmt.Errorf("godwit: %w", err)
	}
	c.rpc = &rpc{cc: cc, pub: pb.NewPublisherClient(cc)}
	return nil
}

// callRPC carries out a call and retries it after temporary failures.
func callRPC[Req, Resp any](ctx context.Context, c *Client, f func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), req *Req) (out *Resp, err error) {
	err = c.retry(ctx, func() error {
		out, err = callOnce(ctx, c, c.timeout, f, req)
		return err
	})
	return out, err
}

// callOnce carries out a call once, within a time.
func callOnce[Req, Resp any](ctx context.Context, c *Client, within time.Duration, f func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), req *Req) (*Resp, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var trailer metadata.MD
	out, err := f(c.signed(limited), req, grpc.Trailer(&trailer))
	if err == nil {
		return out, nil
	}
	if ctx.Err() == nil && limited.Err() != nil {
		return nil, fmt.Errorf("reach server: it did not answer in %s", within)
	}
	return nil, rpcError(err, trailer)
}

// signed adds the API key to a call.
func (c *Client) signed(ctx context.Context) context.Context {
	if c.key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.key)
}

// problemTrailer has the problem of a failed call.
const problemTrailer = "godwit-problem-bin"

// rpcError returns the error of a failed call: an *Error if the server has answered.
func rpcError(err error, trailer metadata.MD) error {
	var p pb.Problem
	if list := trailer.Get(problemTrailer); len(list) > 0 && proto.Unmarshal([]byte(list[0]), &p) == nil {
		return problemError(&p)
	}
	st := status.Convert(err)
	code, ok := map[codes.Code]int{ // refusals before a call reaches its method
		codes.InvalidArgument: http.StatusBadRequest, codes.Unauthenticated: http.StatusUnauthorized, codes.PermissionDenied: http.StatusForbidden,
		codes.ResourceExhausted: http.StatusTooManyRequests, codes.Unimplemented: http.StatusNotImplemented,
	}[st.Code()]
	if ok {
		return &Error{Status: code, Title: st.Code().String(), Detail: st.Message()}
	}
	return fmt.Errorf("reach server: %w", err)
}

func problemError(p *pb.Problem) *Error {
	return &Error{
		Status: int(p.GetStatus()), Type: p.GetType(), Title: p.GetTitle(), Detail: p.GetDetail(), Field: p.GetField(),
		RetryAfter: time.Duration(p.GetRetryAfterMs()) * time.Millisecond,
	}
}

// inMillis rounds away from 0, so that neither a short nor a negative time becomes none.
func inMillis(d time.Duration) int64 {
	if d < 0 {
		return min(d.Milliseconds(), -1)
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// putObject changes an object.
func (r *rpc) putObject(ctx context.Context, c *Client, req *pb.PutObjectRequest) (PutResult, error) {
	got, err := callRPC(ctx, c, r.pub.PutObject, req)
	return PutResult{Version: Version(got.GetVersion()), Changed: got.GetChanged()}, err
}

// ask sends a request to a worker, or to a recipient.
func (r *rpc) ask(ctx context.Context, c *Client, subject, recipient string, data []byte, o AskOptions) (*Answer, error) {
	wait := defaultAsk
	if o.Timeout > 0 {
		wait = o.Timeout
	}
	within, timeout := wait+c.timeout, inMillis(o.Timeout)
	if recipient == "" {
		a, err := callOnce(ctx, c, within, r.pub.Ask, &pb.AskRequest{Subject: subject, ContentType: o.ContentType, Data: data, TimeoutMs: timeout})
		if err != nil {
			return nil, err
		}
		return newAnswer(a), nil
	}
	a, err := callOnce(ctx, c, within, r.pub.AskRecipient, &pb.AskRecipientRequest{
		Recipient: recipient, Device: o.Device, Subject: o.Subject, ContentType: o.ContentType, Data: data, TimeoutMs: timeout,
	})
	if err != nil {
		return nil, err
	}
	return newAnswer(a), nil
}

// newAnswer reads an answer of either method. Its headers contain the content type, as over HTTP.
func newAnswer(a interface {
	GetStatus() int32
	GetHeaders() []*pb.HeaderField
	GetContentType() string
	GetData() []byte
},
) *Answer {
	out := &Answer{Status: int(a.GetStatus()), Header: make(http.Header), ContentType: a.GetContentType(), Data: a.GetData()}
	if out.ContentType != "" {
		out.Header.Set("Content-Type", out.ContentType)
	}
	for _, f := range a.GetHeaders() {
		out.Header[f.GetName()] = append(out.Header[f.GetName()], f.GetValue())
	}
	return out
}
