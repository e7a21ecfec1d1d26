package grpcgate

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	httpcall "godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// draft checks the key's budget, and the errors that are only possible in this wire format.
func (p *publisher) draft(who access.Principal, req *godwitpb.PublishRequest) (*notification.Draft, error) {
	if n := proto.Size(req); n > notification.MaxRequestBytes {
		return nil, problem.TooLarge.With("a publish has at most 256 KB")
	}
	if err := p.allow(who.Key, 1); err != nil {
		return nil, err
	}
	d := &notification.Draft{
		To: req.GetTo(), ID: req.GetId(), CollapseKey: req.GetCollapseKey(), DigestKey: req.GetDigestKey(),
		Content: notification.Content{
			Title: req.GetTitle(), Body: req.GetBody(), Category: req.GetCategory(),
			Data: req.GetData(), ContentType: req.GetContentType(),
		},
		Template: req.GetTemplate(), Variables: req.GetVariables(), Locale: req.GetLocale(),
	}
	var err error
	if d.TTL, err = millis("ttl", req.GetTtlMs()); err != nil {
		return nil, err
	}
	if d.ReplyBy, err = millis("reply_by", req.GetReplyByMs()); err != nil {
		return nil, err
	}
	if d.Keep, err = millis("keep", req.GetKeepMs()); err != nil {
		return nil, err
	}
	d.Inbox = req.Inbox
	for _, a := range req.GetActions() {
		d.Actions = append(d.Actions, notification.Action{ID: a.GetId(), Title: a.GetTitle(), URL: a.GetUrl()})
	}
	if d.ExpiresAt, err = instant("expires_at", req.GetExpiresAtMs()); err != nil {
		return nil, err
	}
	if d.SendAt, err = instant("send_at", req.GetSendAtMs()); err != nil {
		return nil, err
	}
	if err := enums(d, req); err != nil {
		return nil, err
	}
	for i, s := range req.GetEscalate() {
		step, err := escalationStep(fmt.Sprintf("escalate[%d].", i), s)
		if err != nil {
			return nil, err
		}
		d.Escalate = append(d.Escalate, step)
	}
	if d.Phones, err = template.CheckPhones(httpcall.ReadValue, "phones", req.GetPhones()); err != nil {
		return nil, err
	}
	return d, nil
}

func escalationStep(field string, s *godwitpb.EscalationStep) (step notification.Step, err error) {
	step.Channel, step.To, step.Keep = s.GetChannel(), s.GetTo(), s.Withdraw != nil && !s.GetWithdraw()
	if step.After, err = millis(field+"after", s.GetAfterMs()); err == nil && s.GetSettle() != "" {
		step.Shown, err = notification.ParseSettle(field+"settle", s.GetSettle())
	}
	return step, err
}

func enums(d *notification.Draft, req *godwitpb.PublishRequest) error {
	switch req.GetPriority() {
	case godwitpb.Priority_PRIORITY_UNSPECIFIED, godwitpb.Priority_PRIORITY_NORMAL:
	case godwitpb.Priority_PRIORITY_HIGH:
		d.Priority = notification.High
	case godwitpb.Priority_PRIORITY_LOW:
		d.Priority = notification.Low
	default:
		return notification.BadField("priority", "is not one of high, normal and low")
	}
	switch req.GetAck() {
	case godwitpb.AckMode_ACK_MODE_UNSPECIFIED, godwitpb.AckMode_ACK_MODE_ANY:
	case godwitpb.AckMode_ACK_MODE_ALL:
		d.Ack = notification.AckAll
	case godwitpb.AckMode_ACK_MODE_NONE:
		d.Ack = notification.AckNone
	default:
		return notification.BadField("ack", "is not one of any, all and none")
	}
	return nil
}

// maxMillis is the longest time in milliseconds that fits into a time.Duration.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

func millis(field string, ms int64) (time.Duration, error) {
	if ms < 0 || ms > maxMillis {
		return 0, notification.BadField(field, "is out of range")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func instant(field string, ms int64) (time.Time, error) {
	switch {
	case ms == 0:
		return time.Time{}, nil
	case ms < 0 || ms > maxMillis:
		return time.Time{}, notification.BadField(field, "is out of range")
	}
	return time.UnixMilli(ms), nil
}
