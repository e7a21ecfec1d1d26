package backend

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
	"godwit.dev/godwit/internal/server/problem"
)

// chunkEndpoints is the number of endpoints registered at a time: the lines of the answer are sent after each chunk.
const chunkEndpoints = 500

// RegisterBatch is POST /v1/endpoints/batch. It reads the whole body before it registers anything, so that a batch over a limit registers
// nothing.
func (a *API) RegisterBatch(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	return a.withBatch(c, "registered", func(rc *http.ResponseController, body []byte) error {
		b := &endpointBatch{a: a, c: c, rc: rc, who: endpoint.Holder{App: c.Key.App, BackEnd: true, Admin: c.Key.Roles.Has(access.Admin)}}
		return b.run(body)
	})
}

// endpointBatch is a batch that is being registered.
type endpointBatch struct {
	a   *API
	c   *call.Call
	rc  *http.ResponseController
	who endpoint.Holder

	errs []error // error of each line of the chunk; nil: the line's endpoint is the next of regs
	regs []audience.Registration
	out  []byte
}

func (b *endpointBatch) run(body []byte) error {
	b.c.W.Header()["Content-Type"] = call.NDJSON
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

func (b *endpointBatch) add(line []byte) {
	err := call.TooLarge(form.MaxEndpoint)
	if len(line) <= form.MaxEndpoint {
		var e audience.Endpoint
		if e, err = form.Registration(line); err == nil {
			err = b.take(e)
		}
	}
	b.errs = append(b.errs, err)
}

// take adds an endpoint to the chunk, or returns the reason why it may not be registered.
func (b *endpointBatch) take(e audience.Endpoint) error {
	r, err := b.a.Endpoints.Registration(&b.who, e)
	if err == nil {
		b.regs = append(b.regs, r)
	}
	return err
}

// register registers the chunk and sends its results. An error means that the client is gone.
func (b *endpointBatch) register() error {
	done, refused := b.a.Endpoints.Register(b.c.Ctx, b.who.App, b.regs)
	b.out = b.out[:0]
	regs := b.regs
	for _, err := range b.errs {
		if err == nil && len(done) == 0 {
			err = refused
		} else if err == nil {
			if err = done[0].Err; err == nil {
				b.out = append(b.out, `{"id":"`+done[0].Endpoint.ID.String()+`","created":`...)
				b.out = append(appendWarnings(strconv.AppendBool(b.out, done[0].Created), regs[0].Dropped), "}\n"...)
			}
			done, regs = done[1:], regs[1:]
		}
		if err != nil {
			b.out = append(call.AppendProblem(append(b.out, `{"error":`...), problem.From(err)), "}\n"...)
		}
	}
	b.errs, b.regs = b.errs[:0], b.regs[:0]
	return b.c.Stream(b.rc, b.out)
}

// appendWarnings adds the names of attributes that the import dropped.
func appendWarnings(out []byte, dropped []string) []byte {
	if len(dropped) == 0 {
		return out
	}
	text, err := json.Marshal(dropped)
	if err != nil {
		return out // texts are always JSON
	}
	return append(append(out, `,"warnings":`...), text...)
}

// ExportEndpoints is GET /v1/endpoints/export.
func (a *API) ExportEndpoints(c *call.Call) error {
	q, err := c.Params("channel", "recipient", "tag", "status", "where", "segment", "format", "addresses")
	if err != nil {
		return err
	}
	status, sel, err := a.endpointFilter(c, q)
	if err != nil {
		return err
	}
	addresses := true
	if text := q.Get("addresses"); text != "" {
		if addresses, err = strconv.ParseBool(text); err != nil {
			return notification.BadField("addresses", "%q is none of true, false", notification.Clip(text))
		}
	}
	encoder, err := a.Endpoints.Encoder(c.Ctx, c.Key.App, q.Get("format"), addresses)
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", encoder.ContentType)
	rc := http.NewResponseController(c.W)
	var gone error
	err = a.Endpoints.Export(c.Ctx, c.Key.App, endpoint.Filter{Status: status, Selection: sel}, encoder, func(part []byte) error {
		gone = c.Stream(rc, part)
		return gone
	})
	if err != nil && gone == nil {
		return a.cutOff(c, err)
	}
	return nil
}

// cutOff breaks off an answer that cannot be finished, so that the client does not take it for a whole one.
func (a *API) cutOff(c *call.Call, err error) error {
	if c.Status == 0 {
		return err
	}
	a.Log.WarnContext(c.Ctx, "answer cut off", "route", c.R.Pattern, "app", c.Key.App, "error", err)
	panic(http.ErrAbortHandler)
}
