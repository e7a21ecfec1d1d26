package godwit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "godwit.dev/godwit/api/godwitpb"
)

// message returns the publication for godwit.v1.Publisher.
func (p *Publication) message(to ...string) (*pb.PublishRequest, error) {
	w, err := p.wire(to)
	if err != nil {
		return nil, err
	}
	m := &pb.PublishRequest{
		To: to, Id: w.ID, Title: p.Title, Body: p.Body, Category: p.Category, Data: p.Data, ContentType: w.ContentType,
		TtlMs: inMillis(p.TTL), ExpiresAtMs: unixMilli(p.ExpiresAt), SendAtMs: unixMilli(p.SendAt), CollapseKey: p.CollapseKey, DigestKey: p.DigestKey,
		ReplyByMs: inMillis(p.ReplyBy), Template: p.Template, Variables: p.Variables, Locale: p.Locale,
		Inbox: p.Inbox, KeepMs: inMillis(p.Keep),
	}
	for _, a := range p.Actions {
		m.Actions = append(m.Actions, &pb.Action{Id: a.ID, Title: a.Title, Url: a.URL})
	}
	var ok bool
	if m.Priority, ok = priorities[p.Priority]; !ok {
		return nil, fmt.Errorf("priority %q is not one of high, normal and low", p.Priority)
	}
	if m.Ack, ok = ackModes[p.Ack]; !ok {
		return nil, fmt.Errorf("ack %q is not one of any, all and none", p.Ack)
	}
	if m.Phones, err = p.phones(); err != nil {
		return nil, err
	}
	for _, s := range p.Escalate {
		step := &pb.EscalationStep{Channel: s.Channel, AfterMs: inMillis(s.After), Settle: s.Settle, To: s.To}
		if s.Keep {
			step.Withdraw = new(bool)
		}
		m.Escalate = append(m.Escalate, step)
	}
	return m, nil
}

var (
	priorities = map[string]pb.Priority{"": 0, "high": pb.Priority_PRIORITY_HIGH, "normal": pb.Priority_PRIORITY_NORMAL, "low": pb.Priority_PRIORITY_LOW}
	ackModes   = map[string]pb.AckMode{"": 0, "any": pb.AckMode_ACK_MODE_ANY, "all": pb.AckMode_ACK_MODE_ALL, "none": pb.AckMode_ACK_MODE_NONE}
)

// nameOf returns the name of an enum's value.
func nameOf[E comparable](names map[string]E, e E) string {
	for name, v := range names {
		if v == e {
			return name
		}
	}
	return ""
}

// publishOne stores one notification. A copy that failed for a temporary reason is tried again.
func (r *rpc) publishOne(ctx context.Context, c *Client, p *Publication) (Receipt, error) {
	m, err := p.message(p.To)
	if err != nil {
		return Receipt{}, fmt.Errorf("publish to %s: %w", p.To, err)
	}
	var out Receipt
	err = c.retry(ctx, func() error {
		receipts, err := r.publish(ctx, c, m)
		if err == nil {
			out, err = receipts[0], receipts[0].Err
		}
		return err
	})
	if err != nil {
		return Receipt{ID: m.GetId(), To: p.To, Err: err}, fmt.Errorf("publish %s to %s: %w", m.GetId(), p.To, err)
	}
	return out, nil
}

// publishTo stores one notification for several recipients.
func (r *rpc) publishTo(ctx context.Context, c *Client, p *Publication, to []string) (receipts []Receipt, err error) {
	m, err := p.message(to...)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	err = c.retry(ctx, func() (err error) {
		receipts, err = r.publish(ctx, c, m)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish %s to %d recipients: %w", m.GetId(), len(to), err)
	}
	return receipts, nil
}

func (r *rpc) publish(ctx context.Context, c *Client, m *pb.PublishRequest) ([]Receipt, error) {
	got, err := callOnce(ctx, c, c.timeout, r.pub.Publish, m)
	if err != nil {
		return nil, err
	}
	if len(got.GetResults()) != len(m.GetTo()) {
		return nil, fmt.Errorf("read answer: it has %d results for %d recipients", len(got.GetResults()), len(m.GetTo()))
	}
	receipts := make([]Receipt, len(got.GetResults()))
	for i, res := range got.GetResults() {
		receipts[i] = receiptOf(res)
	}
	return receipts, nil
}

func receiptOf(r *pb.PublishResult) Receipt {
	out := Receipt{ID: r.GetId(), To: r.GetTo(), Status: r.GetStatus(), Duplicate: r.GetDuplicate(), ExpiresAt: fromMilli(r.GetExpiresAtMs())}
	if e := r.GetError(); e != nil {
		out.Err = problemError(e)
	}
	return out
}

// publishAll sends the publications whose indices are in todo over one stream, and reads their receipts meanwhile. It returns those to send
// again and how long to wait before.
func (r *rpc) publishAll(ctx context.Context, c *Client, todo []int, ms []*pb.PublishRequest, receipts []Receipt) (again []int, pause time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.pub.PublishStream(c.signed(ctx))
	if err != nil {
		return nil, 0, rpcError(err, nil)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, i := range todo {
			if stream.Send(ms[i]) != nil {
				return // Recv has the reason
			}
		}
		_ = stream.CloseSend()
	}()
	defer func() { cancel(); <-sent }()
	for _, i := range todo {
		got, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, 0, rpcError(err, stream.Trailer())
		}
		results := got.GetResults()
		if len(results) != 1 {
			return nil, 0, fmt.Errorf("read answer: it has %d results for one recipient", len(results))
		}
		to := receipts[i].To
		receipts[i] = receiptOf(results[0])
		receipts[i].To = to // a publication refused as a whole has no recipient
		var e *Error
		if errors.As(receipts[i].Err, &e) && e.temporary() {
			again, pause = append(again, i), max(pause, e.RetryAfter)
		}
	}
	return again, pause, nil
}

// status reads the status of one copy.
func (r *rpc) status(ctx context.Context, c *Client, id, to string) (Status, error) {
	got, err := callRPC(ctx, c, r.pub.Status, &pb.StatusRequest{Id: id, To: to})
	if err != nil {
		return Status{}, err
	}
	if len(got.GetItems()) != 1 {
		return Status{}, fmt.Errorf("read answer: it has %d copies", len(got.GetItems()))
	}
	s := got.GetItems()[0]
	out := Status{
		ID: s.GetId(), To: s.GetTo(), Status: s.GetStatus(), Priority: nameOf(priorities, s.GetPriority()), Ack: nameOf(ackModes, s.GetAck()), Seq: s.GetSeq(),
		CreatedAt: fromMilli(s.GetCreatedAtMs()), SendAt: fromMilli(s.GetSendAtMs()), ExpiresAt: fromMilli(s.GetExpiresAtMs()), DeliveredAt: fromMilli(s.GetDeliveredAtMs()),
		SettledAt: fromMilli(s.GetSettledAtMs()), AckedAt: fromMilli(s.GetAckedAtMs()), LatencyMS: float64(s.GetLatencyMs()), Attempts: int(s.GetAttempts()),
	}
	if id := s.GetDigest(); id != "" {
		out.Digest = &Digest{ID: id, DueAt: fromMilli(s.GetDigestDueMs())}
	}
	if a := s.GetReply(); a != nil {
		out.Reply = &Replied{Status: int(a.GetStatus()), ContentType: a.GetContentType(), Data: a.GetData()}
	}
	return out, nil
}
