package grpcgate

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	httpcall "godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Ask asks one of the workers of a subject.
func (p *publisher) Ask(ctx context.Context, req *godwitpb.AskRequest) (*godwitpb.AskResponse, error) {
	m := unary{name: "Ask", role: access.Publish, long: true}
	return serve(ctx, p, m, func(ctx context.Context, who access.Principal) (*godwitpb.AskResponse, error) {
		r, err := question(ctx, req.GetContentType(), req.GetData(), req.GetTimeoutMs())
		if err != nil {
			return nil, err
		}
		r.Subject = req.GetSubject()
		if !who.Rights().CanRequest(r.Subject) {
			return nil, httpcall.NeedRole(access.Publish)
		}
		return answer(p.Requests.Ask(ctx, who.App, r))
	})
}

// AskRecipient asks a session of a recipient.
func (p *publisher) AskRecipient(ctx context.Context, req *godwitpb.AskRecipientRequest) (*godwitpb.AskRecipientResponse, error) {
	m := unary{name: "AskRecipient", role: access.Publish, long: true}
	return serve(ctx, p, m, func(ctx context.Context, who access.Principal) (*godwitpb.AskRecipientResponse, error) {
		if err := notification.CheckName("recipient", req.GetRecipient()); err != nil {
			return nil, err
		}
		if device := req.GetDevice(); device != "" {
			if err := notification.CheckName("device", device); err != nil {
				return nil, err
			}
		}
		r, err := question(ctx, req.GetContentType(), req.GetData(), req.GetTimeoutMs())
		if err != nil {
			return nil, err
		}
		r.Subject = req.GetSubject()
		a, err := answer(p.Requests.AskRecipient(ctx, who.App, req.GetRecipient(), req.GetDevice(), r))
		if err != nil {
			return nil, err
		}
		return &godwitpb.AskRecipientResponse{Status: a.GetStatus(), Headers: a.GetHeaders(), ContentType: a.GetContentType(), Data: a.GetData()}, nil
	})
}

// question makes the request that is to be sent, with the trace context of the call.
func question(ctx context.Context, contentType string, data []byte, timeout int64) (*request.Request, error) {
	wait, err := millis("timeout", timeout)
	if err != nil {
		return nil, err
	}
	if len(contentType) > notification.MaxNameBytes {
		return nil, notification.BadField("content_type", "must be a media type of at most %d ASCII characters", notification.MaxNameBytes)
	}
	if len(data) > frame.MaxBody {
		return nil, httpcall.TooLarge(frame.MaxBody)
	}
	r := &request.Request{ContentType: contentType, Data: data, Timeout: wait}
	for name, key := range map[string]string{"Traceparent": "traceparent", "Tracestate": "tracestate"} {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			if r.Header == nil {
				r.Header = make(frame.Headers)
			}
			r.Header[name] = v
		}
	}
	return r, nil
}

// answer passes an answer on, without the headers that HTTP callers do not get either.
func answer(a *request.Answer, err error) (*godwitpb.AskResponse, error) {
	if err != nil {
		return nil, err
	}
	if !httphead.Displayable(a.ContentType) {
		return nil, problem.BadAnswer.With("the answer is of the type multipart/x-mixed-replace, which is not passed on")
	}
	out := &godwitpb.AskResponse{Status: int32(a.Status), Headers: HeaderFields(a.Header), ContentType: a.ContentType}
	if httphead.HasBody(a.Status) {
		out.Data = a.Data
	}
	return out, nil
}

// HeaderFields returns a worker's headers for a program that calls, ordered by name.
func HeaderFields(from frame.Headers) (list []*godwitpb.HeaderField) {
	h := make(http.Header, len(from))
	httphead.FromWorker(h, from, httphead.API)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			list = append(list, &godwitpb.HeaderField{Name: name, Value: v})
		}
	}
	return list
}
