package operator

import (
	"net/url"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
)

// maxSlowest limits a list of the slowest sessions, which people read.
const maxSlowest = 100

// lagJSON is a session with unacknowledged or queued messages.
type lagJSON struct {
	Recipient string `json:"recipient"`
	form.Session
	QueuedB  int         `json:"queued_bytes"`
	OldestAt call.Moment `json:"oldest_at"` // when its oldest unacknowledged notification was published or due
}

// slowest lists the slowest sessions of the key's app, if the query asks for them. partial reports that a node did not answer.
func (a *API) slowest(c *call.Call, q url.Values) (out []lagJSON, partial bool, err error) {
	by := session.ByOldest
	switch s := session.Order(q.Get("by")); s {
	case "":
	case session.ByOldest, session.ByUnacked, session.ByQueued:
		by = s
	default:
		return nil, false, notification.BadField("by", "must be one of oldest, unacked, queued")
	}
	if !q.Has("slowest") {
		return nil, false, nil
	}
	n, err := strconv.Atoi(q.Get("slowest"))
	if err != nil || n < 1 || n > maxSlowest {
		return nil, false, notification.BadField("slowest", "must be a number from 1 to %d", maxSlowest)
	}
	lags, partial, err := a.Presence.Slowest(c.Ctx, c.Key.App, by, n)
	if err != nil {
		return nil, false, err
	}
	refs := make([]mailbox.Ref, 0, len(lags))
	for i := range lags {
		if lags[i].Oldest != 0 {
			refs = append(refs, mailbox.Ref{App: c.Key.App, Recipient: lags[i].Recipient, Pos: lags[i].Oldest})
		}
	}
	items, err := a.Mailbox.Items(c.Ctx, refs)
	if err != nil {
		return nil, false, err
	}
	out = make([]lagJSON, len(lags))
	for i := range lags {
		l := &lags[i]
		out[i] = lagJSON{Recipient: l.Recipient, Session: form.ViewSession(l.Info, a.Node), QueuedB: l.Queued}
		if l.Oldest != 0 {
			out[i].OldestAt = call.Moment(begun(items[0]))
			items = items[1:]
		}
	}
	return out, partial, nil
}

// begun returns the time at which a notification began to wait; zero if it was settled meanwhile.
func begun(it *mailbox.Item) time.Time {
	switch {
	case it == nil:
		return time.Time{}
	case it.N.SendAt.After(it.N.CreatedAt):
		return it.N.SendAt
	}
	return it.N.CreatedAt
}
