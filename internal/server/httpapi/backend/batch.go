package backend

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Limits of a batch.
const (
	MaxBatchLines  = 10_000
	MaxBatchBytes  = 32 << 20
	maxBatchMemory = 4 * MaxBatchBytes // limits the bytes of all batches' bodies together, over all apps; further batches wait for their turn

	// A chunk is published at once: large enough to share a commit, small enough not to delay others.
	chunkCopies = 500
	chunkBytes  = 1 << 20

	batchReadTime = 5 * time.Minute // for the whole body
)

// PublishBatch is POST /v1/notifications/batch. It reads the whole body before it publishes anything, so that a batch over a limit
// publishes nothing; then it publishes chunk by chunk, and sends the results of each chunk at once.
func (a *API) PublishBatch(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	return a.withBatch(c, "published", func(rc *http.ResponseController, body []byte) error {
		return (&batch{a: a, c: c, rc: rc, idem: idem, trace: traceOf(c.R.Header)}).run(body)
	})
}

// withBatch reads a batch and passes it to run, which may use the body until it returns. done names the operation on the lines, for errors.
func (a *API) withBatch(c *call.Call, done string, run func(rc *http.ResponseController, body []byte) error) error {
	rc := http.NewResponseController(c.W)
	until := time.Now().Add(batchReadTime)
	_ = rc.SetReadDeadline(until) // tests' writers have no deadlines
	_ = rc.SetWriteDeadline(until.Add(call.PartTime))
	memory := int64(MaxBatchBytes)
	if c.R.ContentLength >= 0 {
		memory = min(memory, c.R.ContentLength)
	}
	ctx, cancel := context.WithTimeout(c.Ctx, call.Patience)
	err := a.batches.Take(ctx, c.Key.App, memory)
	cancel()
	if err != nil {
		return problem.Busy.With("too many batches are being read; nothing was " + done).After(2 * time.Second)
	}
	defer a.batches.Give(c.Key.App, memory)
	var room []byte
	if c.R.ContentLength > 0 {
		room = make([]byte, 0, memory+1) // the memory is reserved already, and a growing buffer would leave as much garbage again
	}
	body, err := call.ReadBody(c.R, room, MaxBatchBytes)
	if err != nil {
		return err
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // some programs begin UTF-8 with a byte-order mark
	if n := countLines(body); n > MaxBatchLines {
		return problem.TooLarge.Withf("the batch has %d lines; at most %d are allowed, and nothing was %s", n, MaxBatchLines, done)
	}
	return run(rc, body)
}

// batchMemory returns the bytes that the bodies of all batches may take together, given the limit of the process's memory: a quarter of it,
// but at least one batch.
func batchMemory(limit int64) int64 { return min(max(limit/4, MaxBatchBytes), maxBatchMemory) }

func countLines(body []byte) (n int) {
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// batch is a batch that is being published.
type batch struct {
	a     *API
	c     *call.Call
	rc    *http.ResponseController
	idem  string
	trace notification.Trace

	lines  []line // of the chunk
	drafts []*notification.Draft
	copies int
	bytes  int
	out    []byte
}

// line is one line of the chunk: a draft, or its error.
type line struct {
	d   *draft // nil if even its outline could not be read
	err error
}

func (b *batch) run(body []byte) error {
	b.c.W.Header()["Content-Type"] = call.NDJSON
	index := 0
	for text := range bytes.Lines(body) {
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		b.add(text, index)
		index++
		if b.copies >= chunkCopies || b.bytes >= chunkBytes {
			if err := b.publish(); err != nil {
				return err
			}
		}
	}
	return b.publish()
}

func (b *batch) add(text []byte, index int) {
	b.bytes += len(text)
	b.copies++
	if len(text) > notification.MaxRequestBytes {
		b.lines = append(b.lines, line{err: call.TooLarge(notification.MaxRequestBytes)})
		return
	}
	d, err := decodeDraft(text)
	b.lines = append(b.lines, line{d: d, err: err})
	if err != nil {
		return
	}
	if b.idem != "" && d.ID == "" {
		d.ID = call.DerivedID(b.c.Key.App, b.idem, index)
	}
	d.Trace = b.trace
	b.copies += max(0, len(d.To)-1)
	b.drafts = append(b.drafts, &d.Draft)
}

// Publish publishes the chunk and sends its results. An error means that the client is gone.
func (b *batch) publish() error {
	results, refused := b.results()
	b.out = b.out[:0]
	for _, l := range b.lines {
		if l.err == nil && refused != nil {
			l.err = refused
		}
		if l.err != nil {
			b.out = appendBadLine(b.out, l)
		} else {
			b.out = appendLine(b.out, l, &results[0])
			results = results[1:]
		}
		b.out = append(b.out, '\n')
	}
	b.lines, b.drafts, b.copies, b.bytes = b.lines[:0], b.drafts[:0], 0, 0
	_ = b.rc.SetWriteDeadline(time.Now().Add(call.PartTime)) // tests' writers have no deadlines
	if b.c.Status == 0 {
		b.c.Status = http.StatusOK
		b.c.W.WriteHeader(http.StatusOK)
	}
	if _, err := b.c.W.Write(b.out); err != nil {
		return fmt.Errorf("answer a batch: %w", context.Canceled)
	}
	return nil
}

// results publishes the chunk's drafts; a refused error concerns all of them.
func (b *batch) results() (results []delivery.Result, refused error) {
	if len(b.drafts) == 0 {
		return nil, nil
	}
	if err := b.a.allow(b.c.Key.Key, len(b.drafts)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(b.c.Ctx, call.Patience)
	defer cancel()
	results = b.a.Publisher.Publish(ctx, b.c.Key.App, b.drafts)
	for i := range results { // log only one line for each chunk
		if err := results[i].Err; err != nil && problem.From(err).Status >= http.StatusInternalServerError {
			b.a.Log.WarnContext(ctx, "batch not stored", "app", b.c.Key.App, "error", err)
			break
		}
	}
	return results, nil
}

func appendLine(out []byte, l line, r *delivery.Result) []byte {
	switch {
	case r.Err != nil:
		l.d.ID = r.ID
		return appendBadLine(out, line{d: l.d, err: r.Err})
	case l.d.list:
		return appendResults(out, r)
	default:
		return appendCopy(out, r.ID, &r.Copies[0])
	}
}

func appendBadLine(out []byte, l line) []byte {
	if l.d == nil {
		return appendRefused(out, "", "", l.err)
	}
	to := ""
	if !l.d.list && len(l.d.To) == 1 {
		to = l.d.To[0]
	}
	return appendRefused(out, to, l.d.ID, l.err)
}
