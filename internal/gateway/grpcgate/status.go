package grpcgate

import (
	"context"
	"time"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/timeline"
)

// Status returns the state of one copy, with its escalation, or of all copies.
func (p *publisher) Status(ctx context.Context, req *godwitpb.StatusRequest) (*godwitpb.StatusResponse, error) {
	return serve(ctx, p, unary{name: "Status", role: access.Read}, func(ctx context.Context, who access.Principal) (*godwitpb.StatusResponse, error) {
		if err := checkCopy(req.GetId(), req.GetTo()); err != nil {
			return nil, err
		}
		records, err := p.Mailbox.Lookup(ctx, who.App, req.GetId(), req.GetTo())
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			return nil, mailbox.ErrNotFound
		}
		out := &godwitpb.StatusResponse{Items: make([]*godwitpb.NotificationStatus, len(records))}
		for i := range records {
			out.Items[i] = statusView(&records[i])
		}
		if req.GetTo() == "" {
			return out, nil
		}
		steps, err := p.Steps.StepsOf(ctx, who.App, &records[0])
		if err != nil {
			return nil, err
		}
		for i := range steps {
			c := channelView(&steps[i])
			number := uint32(steps[i].Number)
			c.Step = &number
			out.Items[0].Channels = append(out.Items[0].Channels, c)
		}
		return out, nil
	})
}

// Recall withdraws one copy, or all.
func (p *publisher) Recall(ctx context.Context, req *godwitpb.RecallRequest) (*godwitpb.RecallResponse, error) {
	return serve(ctx, p, unary{name: "Recall", role: access.Publish}, func(ctx context.Context, who access.Principal) (*godwitpb.RecallResponse, error) {
		if err := checkCopy(req.GetId(), req.GetTo()); err != nil {
			return nil, err
		}
		n, err := p.Mailbox.Recall(ctx, who.App, req.GetId(), req.GetTo())
		if err != nil {
			return nil, err
		}
		return &godwitpb.RecallResponse{Recalled: int64(n)}, nil
	})
}

func checkCopy(id, to string) error {
	if err := notification.CheckName("id", id); err != nil || to == "" {
		return err
	}
	return notification.CheckName("to", to)
}

func statusView(r *mailbox.Record) *godwitpb.NotificationStatus {
	live := timeline.Live(r)
	v := &godwitpb.NotificationStatus{
		Id: r.ID, To: r.To, Status: r.Status.String(), Priority: priorityView(r.Priority), Ack: ackView(r.Ack), Seq: r.Seq,
		CreatedAtMs: unixMilli(r.CreatedAt), SendAtMs: unixMilli(r.SendAt), ExpiresAtMs: unixMilli(r.ExpiresAt),
		DeliveredAtMs: unixMilli(r.DeliveredAt), SettledAtMs: unixMilli(r.SettledAt), Attempts: r.Attempts,
		Channels: []*godwitpb.ChannelStatus{channelView(&live)}, Digest: r.Digest.ID, DigestDueMs: unixMilli(r.Digest.Due),
	}
	if r.Acked() {
		took := max(0, r.SettledAt.Sub(r.Due())).Milliseconds()
		v.AckedAtMs, v.LatencyMs = v.GetSettledAtMs(), &took
	}
	if r.Reply != nil {
		v.Reply = &godwitpb.NotificationReply{Status: int32(r.Reply.Status), ContentType: r.Reply.ContentType, Data: r.Reply.Data}
	}
	return v
}

func channelView(s *timeline.Step) *godwitpb.ChannelStatus {
	return &godwitpb.ChannelStatus{
		Channel: string(s.Channel), Status: s.Status, AtMs: unixMilli(s.At), Detail: s.Detail, Endpoint: s.Endpoint, To: s.To,
	}
}

func priorityView(p notification.Priority) godwitpb.Priority {
	switch p {
	case notification.High:
		return godwitpb.Priority_PRIORITY_HIGH
	case notification.Low:
		return godwitpb.Priority_PRIORITY_LOW
	default:
		return godwitpb.Priority_PRIORITY_NORMAL
	}
}

func ackView(a notification.AckMode) godwitpb.AckMode {
	switch a {
	case notification.AckAll:
		return godwitpb.AckMode_ACK_MODE_ALL
	case notification.AckNone:
		return godwitpb.AckMode_ACK_MODE_NONE
	default:
		return godwitpb.AckMode_ACK_MODE_ANY
	}
}

// unixMilli returns 0 for a time that is not known.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
