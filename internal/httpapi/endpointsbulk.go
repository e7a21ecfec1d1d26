package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/problem"
)

// chunkEndpoints are registered before the answer goes on: their lines are sent as they come.
const chunkEndpoints = 500

// registerBatch is POST /v1/endpoints/batch. The body is read whole before anything is registered, so that a batch
// over a limit registers nothing.
func (a *api) registerBatch(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	rc := http.NewResponseController(c.w)
	until := time.Now().Add(batchReadTime)
	_ = rc.SetReadDeadline(until) // tests' writers have no deadlines
	_ = rc.SetWriteDeadline(until.Add(batchWriteTime))
	memory := int64(maxBatchBytes)
	if c.r.ContentLength >= 0 {
		memory = min(memory, c.r.ContentLength)
	}
	if err := a.acquire(c.ctx, memory); err != nil {
		return err
	}
	defer a.batches.Release(memory)
	body, err := readBody(c.r, nil, maxBatchBytes)
	if err != nil {
		return err
	}
	if n := countLines(body); n > maxBatchLines {
		return problem.TooLarge.Withf("the batch has %d lines; at most %d are allowed, and nothing was registered", n, maxBatchLines)
	}
	b := &endpointBatch{a: a, c: c, rc: rc, h: backEnd(c.key)}
	c.w.Header()["Content-Type"] = valNDJSON
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		b.add(line)
		if len(b.errs) == chunkEndpoints {
			if err := b.register(); err != nil {
				return err
			}
		}
	}
	return b.register()
}

// endpointBatch is one batch being registered.
type endpointBatch struct {
	a  *api
	c  *call
	rc *http.ResponseController
	h  holder

	errs []error // of each line of the chunk; nil: it is the next of regs
	regs []audience.Registration
	out  []byte
}

func (b *endpointBatch) add(line []byte) {
	err := tooLarge(maxEndpointBody)
	if len(line) <= maxEndpointBody {
		var r audience.Registration
		if r, err = b.a.decodeRegistration(line, &b.h); err == nil {
			b.regs = append(b.regs, r)
		}
	}
	b.errs = append(b.errs, err)
}

// register registers the chunk and sends its results. An error means that the client is gone.
func (b *endpointBatch) register() error {
	done, refused := b.a.Endpoints.Register(b.c.ctx, b.h.App, b.regs)
	b.out = b.out[:0]
	for _, err := range b.errs {
		if err == nil && len(done) == 0 {
			err = refused
		} else if err == nil {
			if err = done[0].Err; err == nil {
				b.out = append(b.out, `{"id":"`+done[0].Endpoint.ID.String()+`","created":`...)
				b.out = append(strconv.AppendBool(b.out, done[0].Created), "}\n"...)
			}
			done = done[1:]
		}
		if err != nil {
			b.out = append(appendProblem(append(b.out, `{"error":`...), problem.From(err)), "}\n"...)
		}
	}
	b.errs, b.regs = b.errs[:0], b.regs[:0]
	return b.c.stream(b.rc, b.out)
}

// stream sends a part of a long answer. An error means that the client is gone.
func (c *call) stream(rc *http.ResponseController, part []byte) error {
	_ = rc.SetWriteDeadline(time.Now().Add(batchWriteTime)) // tests' writers have none
	if c.status == 0 {
		c.status = http.StatusOK
		c.w.WriteHeader(http.StatusOK)
	}
	if _, err := c.w.Write(part); err != nil {
		return fmt.Errorf("send answer: %w", err)
	}
	return rc.Flush()
}

// exportPage is how many endpoints an export reads at once: all it ever holds in memory.
const exportPage = 500

// exportEndpoints is GET /v1/endpoints/export.
func (a *api) exportEndpoints(c *call) error {
	q, err := c.params("channel", "recipient", "tag", "status", "where", "format")
	if err != nil {
		return err
	}
	status, sel, err := endpointFilter(q)
	if err != nil {
		return err
	}
	h := c.w.Header()
	var encode func(list []audience.Endpoint) ([]byte, error)
	switch q.Get("format") {
	case "", "ndjson":
		h["Content-Type"] = valNDJSON
		encode = endpointLines
	case "csv":
		h.Set("Content-Type", "text/csv; charset=utf-8")
		_, names, err := a.Endpoints.Names(c.ctx, c.key.App)
		if err != nil {
			return err
		}
		encode = audience.NewTable(names).Rows
	default:
		return badField("format", "%q is none of ndjson, csv", clip(q.Get("format")))
	}
	rc := http.NewResponseController(c.w)
	after := int64(0)
	for more := true; more; {
		var list []audience.Endpoint
		if list, after, more, err = a.Endpoints.List(c.ctx, c.key.App, status, sel, after, exportPage); err != nil {
			return a.cutOff(c, err)
		}
		part, err := encode(list)
		if err != nil {
			return a.cutOff(c, err)
		}
		if err := c.stream(rc, part); err != nil {
			return nil // the client is gone
		}
	}
	return nil
}

// cutOff ends an answer that cannot be finished so that nobody takes it for a whole one.
func (a *api) cutOff(c *call, err error) error {
	if c.status == 0 {
		return err
	}
	a.Log.WarnContext(c.ctx, "answer cut off", "route", c.r.Pattern, "app", c.key.App, "error", err)
	panic(http.ErrAbortHandler)
}

func endpointLines(list []audience.Endpoint) (out []byte, err error) {
	for i := range list {
		line, err := json.Marshal(viewEndpoint(&list[i]))
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}
