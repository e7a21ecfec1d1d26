package godwit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Event is an event in the app.
type Event struct {
	EventID string    `json:"event_id"`
	Type    string    `json:"type"` // stored delivered acked replied expired replaced recalled failed online offline step_accepted …
	At      time.Time `json:"at"`
	ID      string    `json:"id"` // the notification; empty for online and offline
	To      string    `json:"to"`
	Channel string    `json:"channel,omitempty"` // channel over which an escalation's step was sent; else empty
	Step    int       `json:"step,omitempty"`    // number of the escalation step, from 1; 0: no step, or unknown
	Detail  string    `json:"detail,omitempty"`  // the reason, in the provider's or receiver's words
	// Reconciled: the event was lost in a crash or dropped, and was restored from the mailbox's records.
	Reconciled bool `json:"reconciled,omitempty"`
}

// UnmarshalJSON accepts an event_id that is a number as well as one that is a string.
func (e *Event) UnmarshalJSON(b []byte) error {
	type plain Event
	var v struct {
		plain
		EventID json.RawMessage `json:"event_id"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*e = Event(v.plain)
	e.EventID = string(bytes.Trim(v.EventID, `"`))
	return nil
}

// maxEventLine limits one line of the feed, in bytes; names have at most 128 bytes, so real lines are far shorter.
const maxEventLine = 64 << 10

// feedBuffer is the size in bytes of the reads from a feed's connection.
const feedBuffer = 4 << 10

// Events follows the app's events of the given types (none: all) after the event since (empty: from now on) until ctx ends. It reconnects
// and continues after the last event. If an error ends the sequence, it is the last element.
func (c *Client) Events(ctx context.Context, since string, types ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		wait := backoff{base: connectBase, most: connectMost}
		for {
			feed, err := c.openEvents(ctx, since, types)
			for err == nil {
				var ev Event
				if ev, err = feed.next(); err == nil {
					since, wait.n = ev.EventID, 0
					if !yield(ev, nil) {
						feed.close()
						return
					}
				}
			}
			feed.close()
			var e *Error
			if ctx.Err() != nil || errors.As(err, &e) && !e.temporary() {
				yield(Event{}, err)
				return
			}
			delay := wait.next()
			if e != nil {
				delay = max(delay, e.RetryAfter)
			}
			if err := sleep(ctx, delay); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// feed is one open stream of events.
type feed struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

func (c *Client) openEvents(ctx context.Context, since string, types []string) (*feed, error) {
	q := url.Values{}
	if since != "" {
		q.Set("since", since)
	}
	if len(types) > 0 {
		q.Set("types", strings.Join(types, ","))
	}
	resp, err := c.send(ctx, request{method: http.MethodGet, path: "/v1/events", query: q}, "application/x-ndjson")
	if err != nil {
		return nil, fmt.Errorf("follow events: %w", err)
	}
	f := &feed{body: resp.Body, lines: bufio.NewScanner(resp.Body)}
	f.lines.Buffer(make([]byte, 0, feedBuffer), maxEventLine)
	return f, nil
}

func (f *feed) next() (ev Event, err error) {
	for f.lines.Scan() {
		line := bytes.TrimSpace(f.lines.Bytes())
		if len(line) == 0 {
			continue // a sign of life
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			return ev, fmt.Errorf("read event: %w", err)
		}
		return ev, nil
	}
	if err = f.lines.Err(); err == nil {
		err = io.EOF
	}
	return ev, fmt.Errorf("follow events: %w", err)
}

func (f *feed) close() {
	if f != nil {
		f.body.Close()
	}
}

// settledEvents are the events that end a copy.
var settledEvents = []string{"acked", "replied", "expired", "replaced", "recalled", "failed", "digested"}

// Wait returns the status of a recipient's copy once it is settled, or when ctx ends. It follows the events, so it returns at once after an
// acknowledgement. It needs role read.
func (c *Client) Wait(ctx context.Context, id, to string) (Status, error) {
	wait := backoff{base: connectBase, most: connectMost}
	for {
		s, err := c.waitOnce(ctx, id, to)
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		var e *Error
		if errors.As(err, &e) && !e.temporary() {
			return s, err
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return s, fmt.Errorf("wait for %s: %w", id, err)
		}
	}
}

// waitOnce reads the status only after the feed is open, so that it misses no change.
func (c *Client) waitOnce(ctx context.Context, id, to string) (Status, error) {
	feed, err := c.openEvents(ctx, "", append(slices.Clone(settledEvents), "delivered"))
	if err != nil {
		return Status{}, err
	}
	defer feed.close()
	for {
		s, err := c.Status(ctx, id, to)
		if err != nil || s.Settled() {
			return s, err
		}
		for {
			ev, err := feed.next()
			if err != nil {
				return s, err
			}
			if ev.ID == id && ev.To == to {
				break
			}
		}
	}
}
