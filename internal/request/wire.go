package request

import (
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/topic"
)

// Headers of requests and answers on the bus, which NATS clients read and write.
const (
	headMethod   = "Godwit-Method"
	headPath     = "Godwit-Path"
	headQuery    = "Godwit-Query"
	headDeadline = "Godwit-Deadline" // RFC 3339 with milliseconds
	headStatus   = "Godwit-Status"
	headType     = "Content-Type"

	// headFailure says of an answer that no worker gave it, and why.
	headFailure = "Godwit-Failure"
	gone        = "gone"
	busy        = "busy"

	// What NATS services answer with where they failed.
	natsCode = "Nats-Service-Error-Code"
	natsText = "Nats-Service-Error"
)

const ourPrefix = "Godwit-"

const deadlineLayout = "2006-01-02T15:04:05.000Z07:00"

// message is the request as it travels.
func (r *Request) message(deadline time.Time) topic.Message {
	h := make(topic.Header, len(r.Header)+5)
	for name, values := range r.Header {
		h[name] = values
	}
	for _, f := range [...]struct{ name, value string }{
		{headMethod, r.Method},
		{headPath, r.Path},
		{headQuery, r.Query},
		{headType, r.ContentType},
		{headDeadline, deadline.UTC().Format(deadlineLayout)},
	} {
		if f.value != "" {
			h[f.name] = []string{f.value}
		}
	}
	return topic.Message{Header: h, Data: r.Data}
}

// deadline is until when a message's asker waits; who says nothing is taken to wait for the longest time.
func deadline(m *topic.Message, now time.Time) time.Time {
	most := now.Add(MaxTimeout)
	if at, err := time.Parse(time.RFC3339, m.Header.Get(headDeadline)); err == nil && at.Before(most) {
		return at
	}
	return most
}

// frameOf is the frame that hands a task to a client.
func (t *task) frame() *frame.Request {
	m := &t.message
	r := &frame.Request{
		ID: t.id, Subject: t.subject, Method: m.Header.Get(headMethod), Path: m.Header.Get(headPath), Query: m.Header.Get(headQuery),
		ContentType: contentType(m.Header), Data: m.Data, Deadline: t.deadline,
	}
	for name, values := range m.Header {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case headMethod, headPath, headQuery, headDeadline, headType:
			continue
		}
		if r.Headers == nil {
			r.Headers = make(frame.Headers, len(m.Header))
		}
		r.Headers[name] = values
	}
	return r
}

// contentType finds the type however its name is written.
func contentType(h topic.Header) string {
	if v := h.Get(headType); v != "" {
		return v
	}
	for name, values := range h {
		if len(values) > 0 && strings.EqualFold(name, headType) {
			return values[0]
		}
	}
	return ""
}

// reply is a client's answer as it travels.
func reply(r *frame.Reply) topic.Message {
	h := make(topic.Header, len(r.Headers)+2)
	for name, values := range r.Headers {
		if name = textproto.CanonicalMIMEHeaderKey(name); !strings.HasPrefix(name, ourPrefix) {
			h[name] = append(h[name], values...)
		}
	}
	h[headStatus] = []string{strconv.Itoa(r.Status)}
	if r.ContentType != "" {
		h[headType] = []string{r.ContentType}
	}
	return topic.Message{Header: h, Data: append([]byte(nil), r.Data...)}
}

// failure is the answer in the place of one that no worker gives.
func failure(why string) topic.Message {
	status, text := "504", ErrWorkerGone.Error()
	if why == busy {
		status, text = "503", ErrBusy.Error()
	}
	return topic.Message{Header: topic.Header{headStatus: {status}, headFailure: {why}, headType: {"text/plain"}}, Data: []byte(text)}
}

// answer reads what came back. NATS services may say neither a status nor a type.
func answer(m topic.Message) (*Answer, error) {
	switch m.Header.Get(headFailure) {
	case gone:
		return nil, ErrWorkerGone
	case busy:
		return nil, ErrBusy
	}
	a := &Answer{Status: status(m.Header), ContentType: contentType(m.Header), Data: m.Data}
	for name, values := range m.Header {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if canonical == headType || canonical == natsCode || canonical == natsText || strings.HasPrefix(canonical, ourPrefix) {
			continue
		}
		if a.Header == nil {
			a.Header = make(frame.Headers, len(m.Header))
		}
		a.Header[canonical] = append(a.Header[canonical], values...)
	}
	if text := m.Header.Get(natsText); text != "" && len(a.Data) == 0 && a.Status >= 400 {
		a.Data, a.ContentType = []byte(text), "text/plain"
	}
	return a, nil
}

// status is the answer's, as far as it is one of HTTP.
func status(h topic.Header) int {
	text := h.Get(headStatus)
	failed := text == ""
	if failed {
		if text = h.Get(natsCode); text == "" {
			return 200
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && n >= 200 && n <= 599 && (!failed || n >= 400):
		return n
	case failed:
		return 500 // a NATS service failed with a code of its own
	}
	return 502 // what came is no answer
}
