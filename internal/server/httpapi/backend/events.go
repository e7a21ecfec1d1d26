package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/problem"
)

// Limits of feeds.
const (
	maxFeeds      = 2000             // limits the followers of events on one node, and those of one app to half of it; each costs a goroutine and a connection
	feedPage      = 500              // events read at once
	FeedHeartbeat = 15 * time.Second // proxies close connections that are silent for a minute or less
	feedWriteTime = 30 * time.Second // a follower that reads more slowly is disconnected; it can reconnect with since
)

// FollowEvents is GET /v1/events: the answer stays open, as NDJSON or, if the client accepts them, as server-sent events.
func (a *API) FollowEvents(c *call.Call) error {
	f, err := a.newFeed(c)
	if err != nil {
		return err
	}
	ctx, end, err := a.openFeed(c)
	if err != nil {
		return err
	}
	defer end()
	return f.run(ctx)
}

// openFeed takes one of the places for feeds until the caller calls end. ctx ends with the request, or before the server stops.
func (a *API) openFeed(c *call.Call) (ctx context.Context, end func(), err error) {
	if !a.feeds.Try(c.Key.App, 1) {
		return nil, nil, problem.Busy.With("the app has as many feeds open as this server has places for").After(feedWriteTime)
	}
	ctx, free := lifecycle.Until(c.Ctx, a.Draining)
	return ctx, func() {
		free()
		a.feeds.Give(c.Key.App, 1)
	}, nil
}

// feed is one follower.
type feed struct {
	c     *call.Call
	rc    *http.ResponseController
	log   event.Log
	sse   bool
	types []event.Type // empty: all
	since uint64
	out   []byte
}

func (a *API) newFeed(c *call.Call) (*feed, error) {
	q, err := c.Params("types", "since")
	if err != nil {
		return nil, err
	}
	f := &feed{
		c: c, rc: http.NewResponseController(c.W), log: a.Events,
		sse: strings.Contains(c.R.Header.Get("Accept"), "text/event-stream"),
	}
	if f.types, err = eventTypes(q.Get("types")); err != nil {
		return nil, err
	}
	if f.since, err = f.start(q); err != nil {
		return nil, err
	}
	return f, nil
}

func eventTypes(list string) (types []event.Type, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		t := event.Type(strings.TrimSpace(name))
		if !slices.Contains(event.Types, t) {
			return nil, notification.BadField("types", "%q is not a type of event", notification.Clip(name))
		}
		types = append(types, t)
	}
	return types, nil
}

// start returns the event after which the feed begins: since, the last event that an EventSource received, or the newest.
func (f *feed) start(q url.Values) (uint64, error) {
	field, text := "since", q.Get("since")
	if text == "" && f.sse {
		field, text = "Last-Event-ID", f.c.R.Header.Get("Last-Event-ID")
	}
	if text == "" {
		return f.log.Last(), nil
	}
	since, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, notification.BadField(field, "%q is not an event_id", notification.Clip(text))
	}
	return since, nil
}

func (f *feed) run(ctx context.Context) error {
	if !f.begin() || f.c.R.Method == http.MethodHead {
		return nil
	}
	spoken := time.Now()
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, FeedHeartbeat)
		evs, last, err := f.log.Read(wait, f.c.Key.App, f.since, feedPage, true)
		silent := wait.Err() != nil
		cancel()
		if err != nil && !silent {
			return fmt.Errorf("read events of %s: %w", f.c.Key.App, err)
		}
		f.since = max(f.since, last)
		f.out = f.out[:0]
		for i := range evs {
			f.append(&evs[i])
		}
		if len(f.out) == 0 && time.Since(spoken) >= FeedHeartbeat {
			f.out = f.heartbeat()
		}
		if len(f.out) > 0 {
			if !f.send() {
				return nil
			}
			spoken = time.Now()
		}
	}
	return nil
}

// begin sends the header, so that the client knows it is connected.
func (f *feed) begin() bool {
	_ = f.rc.SetReadDeadline(time.Time{}) // tests' writers have no deadlines
	f.c.W.Header()["Content-Type"] = call.NDJSON
	if f.sse {
		f.c.W.Header().Set("Content-Type", "text/event-stream")
	}
	f.c.Streams()
	f.c.Status = http.StatusOK
	f.c.W.WriteHeader(http.StatusOK)
	return f.send()
}

// send writes and flushes the buffer; false: the client is gone or does not read.
func (f *feed) send() bool {
	if err := f.rc.SetWriteDeadline(time.Now().Add(feedWriteTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	if _, err := f.c.W.Write(f.out); err != nil {
		return false
	}
	return f.rc.Flush() == nil
}

func (f *feed) heartbeat() []byte {
	if f.sse {
		return append(f.out, ": \n\n"...)
	}
	return append(f.out, '\n')
}

func (f *feed) append(e *event.Event) {
	if len(f.types) > 0 && !slices.Contains(f.types, e.Type) {
		return
	}
	b := f.out
	if f.sse {
		b = append(b, "id: "...)
		b = strconv.AppendUint(b, e.ID, 10)
		b = append(b, "\nevent: "...)
		b = append(b, e.Type...)
		b = append(b, "\ndata: "...)
	}
	b = append(b, `{"event_id":"`...)
	b = strconv.AppendUint(b, e.ID, 10)
	b = append(b, `","type":`...)
	b = call.AppendString(b, string(e.Type))
	b = append(b, `,"at":`...)
	b = call.AppendTime(b, e.At)
	if e.Note != "" {
		b = append(b, `,"id":`...)
		b = call.AppendString(b, e.Note)
	}
	b = append(b, `,"to":`...)
	b = call.AppendString(b, e.To)
	if e.Channel != "" {
		b = append(b, `,"channel":`...)
		b = call.AppendString(b, e.Channel)
	}
	b = append(appendFurther(b, e), "}\n"...)
	if f.sse {
		b = append(b, '\n')
	}
	f.out = b
}

// appendFurther appends members that few events have.
func appendFurther(b []byte, e *event.Event) []byte {
	if e.Step != 0 {
		b = append(b, `,"step":`...)
		b = strconv.AppendInt(b, int64(e.Step), 10)
	}
	if e.Detail != "" {
		b = append(b, `,"detail":`...)
		b = call.AppendString(b, e.Detail)
	}
	if e.Reconciled {
		b = append(b, `,"reconciled":true`...)
	}
	return b
}
