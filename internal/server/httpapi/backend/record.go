package backend

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

func appendRecords(b []byte, records []mailbox.Record) []byte {
	b = append(b, '[')
	for i := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRecord(b, &records[i])
	}
	return append(b, ']')
}

// appendRecord appends one copy as the status API shows it. Fields of events that have not happened are null.
func appendRecord(b []byte, r *mailbox.Record) []byte { return append(appendOpen(b, r), "]}"...) }

// appendOpen appends the start of a copy's JSON, up to the live channel; the list of channels stays open.
func appendOpen(b []byte, r *mailbox.Record) []byte {
	acked := r.Status == notification.Acked || r.Status == notification.Replied
	b = append(b, `{"id":`...)
	b = call.AppendString(b, r.ID)
	b = append(b, `,"to":`...)
	b = call.AppendString(b, r.To)
	b = append(b, `,"status":"`...)
	b = append(b, r.Status.String()...)
	b = append(b, `","priority":"`...)
	b = append(b, r.Priority.String()...)
	b = append(b, `","ack":"`...)
	b = append(b, r.Ack.String()...)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = call.AppendMoment(b, "created_at", r.CreatedAt)
	b = call.AppendMoment(b, "send_at", r.SendAt)
	b = call.AppendMoment(b, "expires_at", r.ExpiresAt)
	b = call.AppendMoment(b, "delivered_at", r.DeliveredAt)
	b = call.AppendMoment(b, "settled_at", r.SettledAt)
	b = append(b, `,"acked_at":`...)
	if acked {
		b = call.AppendTime(b, r.SettledAt)
		b = append(b, `,"latency_ms":`...)
		b = strconv.AppendInt(b, max(0, r.SettledAt.Sub(r.Due())).Milliseconds(), 10)
	} else {
		b = append(b, `null,"latency_ms":null`...)
	}
	b = append(b, `,"attempts":`...)
	b = strconv.AppendUint(b, uint64(r.Attempts), 10)
	b = appendReply(append(b, `,"reply":`...), r.Reply)
	if r.Digest.ID != "" {
		b = call.AppendString(append(b, `,"digest":{"id":`...), r.Digest.ID)
		b = call.AppendMoment(b, "due_at", r.Digest.Due)
		b = append(b, '}')
	}
	b = append(b, `,"channels":[`...)
	return appendLive(b, r)
}

// appendReply appends the recipient's answer; its data has the same form as in a publish.
func appendReply(b []byte, r *notification.Reply) []byte {
	if r == nil {
		return append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `{"status":`...), int64(r.Status), 10)
	b = call.AppendString(append(b, `,"content_type":`...), r.ContentType)
	switch {
	case len(r.Data) == 0:
	case notification.IsJSON(r.ContentType) && utf8.Valid(r.Data) && json.Valid(r.Data):
		b = append(append(b, `,"data":`...), r.Data...)
	case !notification.IsJSON(r.ContentType) && utf8.Valid(r.Data):
		b = call.AppendString(append(b, `,"data":`...), string(r.Data))
	default:
		b = base64.StdEncoding.AppendEncode(append(b, `,"data_base64":"`...), r.Data)
		b = append(b, '"')
	}
	return append(b, '}')
}

// appendLive appends the live channel.
func appendLive(b []byte, r *mailbox.Record) []byte {
	live := timeline.Live(r)
	b = append(b, `{"channel":"live","status":"`...)
	b = append(b, live.Status...)
	b = append(b, '"')
	b = call.AppendMoment(b, "at", live.At)
	b = append(b, `,"detail":`...)
	if live.Detail != "" {
		b = call.AppendString(b, live.Detail)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}
