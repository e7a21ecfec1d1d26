package backend

import (
	"context"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/escalation"
	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
)

// Steps says how escalations beyond live stand.
type Steps interface {
	// StepsOf returns the steps of an open copy and which one is next.
	StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error)
	// SendsOf lists what was sent for a copy, in the order of steps.
	SendsOf(ctx context.Context, app, note, recipient string) ([]escalation.Send, error)
}

// appendSteps adds to a copy's record, after live, what its steps have sent and which ones wait.
func (a *API) appendSteps(ctx context.Context, app string, b []byte, r *mailbox.Record) ([]byte, error) {
	if a.Steps == nil {
		return b, nil
	}
	sends, err := a.Steps.SendsOf(ctx, app, r.ID, r.To)
	if err != nil {
		return b, err
	}
	for i := range sends {
		if sends[i].Pos == r.Pos { // another one may have had this id before
			b = appendSend(append(b, ','), &sends[i])
		}
	}
	steps, next, err := a.Steps.StepsOf(ctx, mailbox.Ref{App: app, Recipient: r.To, Pos: r.Pos})
	if err != nil {
		return b, err
	}
	due := r.CreatedAt
	if r.SendAt.After(due) {
		due = r.SendAt
	}
	for i := next; i < len(steps); i++ {
		b = appendStep(append(b, ','), i, steps[i].Channel, "waiting", "", steps[i].To, due.Add(steps[i].After), "")
	}
	return b, nil
}

func appendSend(b []byte, s *escalation.Send) []byte {
	endpoint := ""
	if s.Endpoint != 0 { // a target has no id outside
		endpoint = s.EndpointID.String()
	}
	return appendStep(b, s.Step, string(s.Channel), sendStatus(s), endpoint, s.Options.To, s.At, s.Detail)
}

// sendStatus names what became of a send.
func sendStatus(s *escalation.Send) string {
	switch {
	case s.Nobody():
		return "skipped"
	case s.Outcome == dispatch.TakenBack && s.Channel == push.APNs:
		return "withdraw_sent" // iOS may hold it back
	case s.Outcome == dispatch.TakenBack:
		return "withdrawn"
	case s.Outcome == dispatch.Expired:
		return "failed"
	case s.Clicked:
		return "clicked"
	case s.Shown, s.Dismissed: // who says so got it, whatever else is known
		return "shown"
	case s.Held:
		return "held"
	case s.Outcome == dispatch.Pending:
		return "sending" // its turn has come, or will
	}
	return s.Outcome.String()
}

func appendStep(b []byte, step int, channel, status, endpoint, to string, at time.Time, detail string) []byte {
	b = call.AppendString(append(b, `{"channel":`...), channel)
	b = strconv.AppendInt(append(b, `,"step":`...), int64(step), 10)
	b = call.AppendString(append(b, `,"status":`...), status)
	if endpoint != "" {
		b = call.AppendString(append(b, `,"endpoint":`...), endpoint)
	}
	if to != "" {
		b = call.AppendString(append(b, `,"to":`...), to)
	}
	b = call.AppendMoment(b, "at", at)
	b = append(b, `,"detail":`...)
	if detail == "" {
		return append(b, "null}"...)
	}
	return append(call.AppendString(b, detail), '}')
}
