package mqttgate

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/server/problem"
)

// Second levels of response topics, so that ids of requests and of notifications never meet.
const (
	replyToRequest = "r"
	replyToNote    = "n"
)

// asked sends a request to the client: one of a subject that it serves, or one to its recipient by name.
func (c *conn) asked(q question) bool {
	h := wire.Head{Topic: requestName}
	switch {
	case q.Subject != "" && c.has(serves):
		h.Topic = askLevel + "/" + fromSubject(q.Subject)
	case !c.has(requests):
		return false
	}
	p := wire.AppendText(nil, wire.ResponseTopic, replyLevel+"/"+replyToRequest+"/"+q.ID)
	p = wire.AppendText(p, wire.CorrelationData, q.ID)
	if q.ContentType != "" {
		p = wire.AppendText(p, wire.ContentType, q.ContentType)
	}
	for _, f := range [...]struct{ name, value string }{{"method", q.Method}, {"path", q.Path}, {"query", q.Query}} {
		if f.value != "" {
			p = wire.AppendUser(p, f.name, f.value)
		}
	}
	p = wire.AppendUser(p, "deadline", q.Deadline.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	for i := 0; i+1 < len(q.headers); i += 2 {
		p = wire.AppendUser(p, "header", q.headers[i]+": "+q.headers[i+1])
	}
	h.Properties = p
	return c.publish(&h, q.Data)
}

// question makes the work of a request, whose answer goes to its response topic on this connection alone.
func (g *Gateway) question(j *job, msg *pubsub.Message, m *wire.Publish) (wire.Reason, string) {
	to := m.Properties.Text(wire.ResponseTopic)
	if len(to) == 0 {
		return wire.InvalidTopic, "a request needs MQTT 5 and a response topic for its answer"
	}
	if err := topic.CheckName("subject", msg.Topic); err != nil {
		return reasonOfError(err)
	}
	r := &request.Request{Subject: msg.Topic, ContentType: msg.ContentType, Data: bytes.Clone(m.Payload)}
	if s := m.Properties.Number(wire.MessageExpiry, 0); s > 0 {
		r.Timeout = min(time.Duration(s)*time.Second, request.MaxTimeout)
	}
	if err := r.Check(); err != nil {
		return reasonOfError(err)
	}
	j.request = &clientRequest{Request: r, to: string(to), correlation: bytes.Clone(m.Properties.Text(wire.CorrelationData))}
	return wire.Success, ""
}

// clientRequest is a request of a client.
type clientRequest struct {
	*request.Request
	to          string
	correlation []byte
}

// ask sends a client's request and passes the answer on, in a goroutine of its own.
func (l *lane) ask(j *job) {
	q, c := j.request, j.c
	if l.g.asking.Add(1) > maxAsking {
		l.g.asking.Add(-1)
		j.reason, j.why = wire.QuotaExceeded, "too many requests are under way; try again"
		return
	}
	l.g.running.Go(func() {
		defer l.g.asking.Add(-1)
		a, err := l.g.cfg.Requests.Ask(l.g.ctx, l.app, q.Request)
		h := wire.Head{Topic: q.to}
		var p []byte
		if q.correlation != nil {
			p = wire.AppendText(p, wire.CorrelationData, q.correlation)
		}
		if err != nil {
			failed := problem.From(err)
			a = &request.Answer{Status: failed.Status, ContentType: "text/plain", Data: []byte(failed.Error())}
		}
		if a.ContentType != "" {
			p = wire.AppendText(p, wire.ContentType, a.ContentType)
		}
		p = wire.AppendUser(p, "status", strconv.Itoa(cmp.Or(a.Status, http.StatusOK)))
		for name, values := range a.Header {
			for _, v := range values {
				p = wire.AppendUser(p, "header", name+": "+v)
			}
		}
		h.Properties = p
		if !c.has(ended) {
			c.publish(&h, a.Data)
		}
	})
}

// fromSubject returns the MQTT name of a subject, without its first level.
func fromSubject(subject string) string { return decodeName(subject) }

var errWill = fmt.Errorf("%w: the credential does not allow to publish the will", access.ErrForbidden)
