package grpcgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/object"
	httpcall "godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// BackEnd holds what the calls of godwit.v1.Publisher need beside a Publisher.
type BackEnd struct {
	Mailbox interface {
		Recall(ctx context.Context, app, id, to string) (n int, err error)
		Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error)
	}
	// Steps lists a copy's states on channels beyond live.
	Steps interface {
		StepsOf(ctx context.Context, app string, r *mailbox.Record) ([]timeline.Step, error)
	}
	Objects interface {
		Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
		Get(ctx context.Context, app string, k object.Key) (st object.State, ok bool, err error)
	}
	Topics interface {
		Publish(ctx context.Context, app string, m *pubsub.Message) error
	}
	Requests interface {
		Ask(ctx context.Context, app string, r *request.Request) (*request.Answer, error)
		AskRecipient(ctx context.Context, app, recipient, device string, r *request.Request) (*request.Answer, error)
	}
	PublishLimit PublishLimit // nil: none
	Audit        *audit.Log   // nil: nothing is remembered
	// Refusals records refused calls for display. Nil: nothing does.
	Refusals interface {
		Refuse(app, route string, status int, text string)
		Fail()
	}
}

// unary describes a unary call.
type unary struct {
	name   string
	role   access.Role
	action string // its name in the audit log; empty: the call is not recorded
	object string // of the action
	long   bool   // it has a limit of its own, or the caller's alone
}

// service is the prefix of the methods in logs.
const service = "godwit.v1.Publisher/"

// serve carries out a call for a key with the method's role, within the time that the same call over HTTP has. f's errors become the call's
// status.
func serve[T any](ctx context.Context, p *publisher, m unary, f func(context.Context, access.Principal) (*T, error)) (*T, error) {
	if !m.long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, httpcall.Patience)
		defer cancel()
	}
	who, err := p.authorise(ctx, m.role)
	var out *T
	if err == nil {
		if !p.calls.Try(who.App, 1) {
			return nil, errAppBusy
		}
		defer p.calls.Give(who.App, 1)
		out, err = f(ctx, who)
	}
	p.tell(ctx, m, who, err)
	if err != nil {
		return nil, p.fail(ctx, m.name, who.App, err)
	}
	return out, nil
}

// tell records an action in the audit log, as the HTTP API does.
func (p *publisher) tell(ctx context.Context, m unary, who access.Principal, err error) {
	if m.action == "" || p.Audit == nil || who.App == "" {
		return
	}
	outcome := audit.Done
	if err != nil {
		switch status := problem.From(err).Status; {
		case status == http.StatusForbidden:
			outcome = audit.Refused
		case status >= http.StatusInternalServerError:
			outcome = audit.Failed
		default:
			return
		}
	}
	e := audit.Entry{App: who.App, By: who.Key, Way: audit.API, Action: m.action, Object: m.object, Outcome: outcome}
	if from, ok := peer.FromContext(ctx); ok {
		e.Address, _, _ = net.SplitHostPort(from.Addr.String())
	}
	p.Audit.Note(ctx, e)
}

// authorise finds the key of a call. A key without the role is returned with the error.
func (p *publisher) authorise(ctx context.Context, role access.Role) (access.Principal, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	secret := bearer(first(md)("authorization"))
	if secret == "" {
		return access.Principal{}, access.ErrUnauthenticated
	}
	who, err := p.keys.Key(ctx, secret)
	if err == nil && !who.Roles.Has(role) {
		err = httpcall.NeedRole(role)
	}
	return who, err
}

// fail converts an error to the call's status, and logs it or records it as the HTTP API does.
func (p *publisher) fail(ctx context.Context, method, app string, err error) error {
	pr := problem.From(err)
	switch {
	case pr.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) && !errors.Is(err, mailbox.ErrNoSpace):
		p.log.WarnContext(ctx, "call failed", "method", service+method, "status", pr.Status, "app", app, "error", err)
		if p.Refusals != nil {
			p.Refusals.Fail()
		}
	case p.Refusals != nil:
		p.Refusals.Refuse(app, service+method, pr.Status, strings.TrimSuffix(pr.Error(), ": "))
	}
	return StatusError(ctx, err)
}

// allow takes n publishes from a key's budget, or refuses them.
func (p *publisher) allow(key string, n int) error {
	if p.PublishLimit == nil {
		return nil
	}
	if wait := p.PublishLimit(key, n); wait > 0 {
		return httpcall.RateLimited(wait)
	}
	return nil
}

// idempotencyKey returns the metadata idempotency-key, or "".
func idempotencyKey(ctx context.Context) (string, error) {
	given := metadata.ValueFromIncomingContext(ctx, "idempotency-key")
	if given == nil {
		return "", nil
	}
	return httpcall.IdempotencyKey(http.Header{"Idempotency-Key": given})
}

// PutObject changes an object.
func (p *publisher) PutObject(ctx context.Context, req *godwitpb.PutObjectRequest) (*godwitpb.PutObjectResponse, error) {
	return serve(ctx, p, unary{name: "PutObject", role: access.Publish}, func(ctx context.Context, who access.Principal) (*godwitpb.PutObjectResponse, error) {
		put := &object.Put{
			Version: object.Version(req.GetVersion()), Unknown: req.GetUnknown(), Payload: req.GetPayload(), ContentType: req.GetContentType(),
		}
		if len(put.Payload) > 0 && put.ContentType == "" {
			put.ContentType = notification.GuessType(put.Payload)
		}
		var err error
		if source := req.GetSource(); source != "" {
			if put.Origin, err = object.ParseOrigin(source); err != nil {
				return nil, err
			}
		}
		st, changed, err := p.put(ctx, who, object.Key{Group: req.GetGroup(), Object: req.GetObject()}, put)
		if err != nil {
			return nil, err
		}
		return &godwitpb.PutObjectResponse{Version: int64(st.Version), Changed: changed}, nil
	})
}

func (p *publisher) put(ctx context.Context, who access.Principal, k object.Key, put *object.Put) (st object.State, changed bool, err error) {
	if err := k.Check(); err != nil {
		return st, false, err
	}
	if err := p.allow(who.Key, 1); err != nil {
		return st, false, err
	}
	if st, changed, err = p.Objects.Put(ctx, who.App, k, put); err != nil {
		return st, false, httpcall.NotStored(err)
	}
	return st, changed, nil
}

// DeleteObject makes an object's version unknown.
func (p *publisher) DeleteObject(ctx context.Context, req *godwitpb.DeleteObjectRequest) (*godwitpb.DeleteObjectResponse, error) {
	k := object.Key{Group: req.GetGroup(), Object: req.GetObject()}
	m := unary{name: "DeleteObject", role: access.Publish, action: "object.delete", object: k.String()}
	return serve(ctx, p, m, func(ctx context.Context, who access.Principal) (*godwitpb.DeleteObjectResponse, error) {
		if err := k.Check(); err != nil {
			return nil, err
		}
		_, ok, err := p.Objects.Get(ctx, who.App, k)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, mailbox.ErrNotFound
		}
		st, changed, err := p.put(ctx, who, k, &object.Put{Unknown: true})
		if err != nil {
			return nil, err
		}
		return &godwitpb.DeleteObjectResponse{Version: int64(st.Version), Changed: changed}, nil
	})
}

// PublishMessage hands a message to the subscribers of a topic.
func (p *publisher) PublishMessage(ctx context.Context, req *godwitpb.PublishMessageRequest) (*godwitpb.PublishMessageResponse, error) {
	return serve(ctx, p, unary{name: "PublishMessage", role: access.Publish}, func(ctx context.Context, who access.Principal) (*godwitpb.PublishMessageResponse, error) {
		m := &pubsub.Message{
			Topic: req.GetTopic(), ContentType: req.GetContentType(), Traceparent: traceOf(ctx).Parent, Data: req.GetData(),
		}
		if err := m.Check(); err != nil {
			return nil, err
		}
		if !who.Rights().CanPublish(m.Topic) {
			return nil, fmt.Errorf("%w: the key may not publish to topic %s", access.ErrForbidden, m.Topic)
		}
		if err := p.allow(who.Key, 1); err != nil {
			return nil, err
		}
		if err := p.Topics.Publish(ctx, who.App, m); err != nil {
			return nil, err
		}
		return &godwitpb.PublishMessageResponse{}, nil
	})
}
