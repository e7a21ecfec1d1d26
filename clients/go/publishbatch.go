package godwit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	pb "godwit.dev/godwit/api/godwitpb"
)

// PublishBatch stores any number of notifications in as few requests as possible. It returns one receipt per publication, in order; an
// invalid one does not affect the others. Publications that failed for a temporary reason are retried. The error is that of a whole
// request; receipts before it are complete.
func (c *Client) PublishBatch(ctx context.Context, ps []Publication) ([]Receipt, error) {
	receipts := make([]Receipt, len(ps))
	b := batch{lines: make([][]byte, len(ps)), messages: make([]*pb.PublishRequest, len(ps))}
	var todo []int
	for i := range ps {
		id, err := b.add(c, i, &ps[i])
		receipts[i] = Receipt{ID: id, To: ps[i].To, Err: err}
		if err == nil {
			todo = append(todo, i)
		}
	}
	wait := backoff{base: requestBase, most: requestMost}
	for try := 1; len(todo) > 0; try++ {
		again, pause, err := b.send(ctx, c, todo, receipts)
		if err != nil {
			return receipts, fmt.Errorf("publish batch: %w", err)
		}
		if try >= c.attempts || len(again) == 0 {
			break
		}
		delay := max(wait.next(), pause)
		if c.onRetry != nil {
			c.onRetry(receipts[again[0]].Err, delay)
		}
		if sleep(ctx, delay) != nil {
			break
		}
		todo = again
	}
	return receipts, nil
}

// batch has many publications in the form in which they are sent.
type batch struct {
	lines    [][]byte
	messages []*pb.PublishRequest // of WithRPC
}

// add encodes the publication with an index and returns its id.
func (b *batch) add(c *Client, i int, p *Publication) (id string, err error) {
	if c.rpc != nil {
		b.messages[i], err = p.message(p.To)
		return cmp.Or(b.messages[i].GetId(), p.ID), err
	}
	w, err := p.wire(p.To)
	if err == nil {
		b.lines[i], err = json.Marshal(w)
	}
	if err != nil {
		return p.ID, err
	}
	return w.ID, nil
}

// send sends the publications whose indices are in todo. It returns those to send again and how long to wait before.
func (b *batch) send(ctx context.Context, c *Client, todo []int, receipts []Receipt) (again []int, pause time.Duration, err error) {
	if c.rpc != nil {
		return c.rpc.publishAll(ctx, c, todo, b.messages, receipts)
	}
	return c.publishLines(ctx, todo, b.lines, receipts)
}

// publishLines sends the lines whose indices are in todo. It returns the lines to send again and how long to wait before.
func (c *Client) publishLines(ctx context.Context, todo []int, lines [][]byte, receipts []Receipt) (again []int, pause time.Duration, err error) {
	for len(todo) > 0 {
		var body []byte
		n := 0
		for n < len(todo) && n < maxBatchLines && (n == 0 || len(body)+len(lines[todo[n]])+1 <= maxBatchBytes) {
			body = append(append(body, lines[todo[n]]...), '\n')
			n++
		}
		answer, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/notifications/batch", body: body, contentType: "application/x-ndjson"})
		if err != nil {
			return nil, 0, err
		}
		dec := json.NewDecoder(bytes.NewReader(answer))
		for _, i := range todo[:n] {
			var r result
			if err := dec.Decode(&r); err != nil {
				return nil, 0, fmt.Errorf("read answer: %w", err)
			}
			receipts[i] = r.receipt()
			var e *Error
			if errors.As(receipts[i].Err, &e) && e.temporary() {
				again, pause = append(again, i), max(pause, e.RetryAfter)
			}
		}
		todo = todo[n:]
	}
	return again, pause, nil
}
