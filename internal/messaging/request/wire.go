package request

import (
	"bytes"
	"errors"
	"maps"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
)

// Headers of requests and answers on the bus, which NATS clients read and write.
const (
	headMethod   = "Godwit-Method"
	headPath     = "Godwit-Path"
	headQuery    = "Godwit-Query"
	headDeadline = "Godwit-Deadline" // RFC 3339 with milliseconds
	headStatus   = "Godwit-Status"
	headType     = "Content-Type"

	// headFailure marks an answer that replaces a worker's, with the reason.
	headFailure = "Godwit-Failure"
	gone        = "gone"
	busy        = "busy"
	broken      = "broken"

	// The header in which NATS services report a failure.
	natsCode = "Nats-Service-Error-Code"
	natsText = "Nats-Service-Error"
)

const ourPrefix = "Godwit-"

const deadlineLayout = "2006-01-02T15:04:05.000Z07:00"

// message returns the request as a message on the bus.
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

// deadline returns the time until which a message's sender waits. If the message has no deadline, it assumes the longest timeout.
func deadline(m *topic.Message, now time.Time) time.Time {
	most := now.Add(MaxTimeout)
	if at, err := time.Parse(time.RFC3339, m.Header.Get(headDeadline)); err == nil && at.Before(most) {
		return at
	}
	return most
}

// frame returns the request as a frame for a client that gets it without the bus.
func (r *Request) frame(deadline time.Time) frame.Request {
	return frame.Request{
		Subject: r.Subject, Method: r.Method, Path: r.Path, Query: r.Query, Headers: unreserved(r.Header),
		ContentType: r.ContentType, Data: r.Data, Deadline: deadline,
	}
}

// frameOf converts a message from the bus to the frame for a client.
func frameOf(subject string, m *topic.Message, deadline time.Time) *frame.Request {
	return &frame.Request{
		Subject: subject, Method: m.Header.Get(headMethod), Path: m.Header.Get(headPath), Query: m.Header.Get(headQuery),
		Headers: unreserved(frame.Headers(m.Header)), ContentType: contentType(m.Header), Data: m.Data, Deadline: deadline,
	}
}

// unreserved returns headers without those that are separate fields of a frame.
func unreserved(h frame.Headers) frame.Headers {
	for name := range h {
		if reserved(name) {
			h = maps.Clone(h)
			maps.DeleteFunc(h, func(name string, _ []string) bool { return reserved(name) })
			break
		}
	}
	return h
}

func reserved(name string) bool {
	if n := len(name); n != len(headMethod) && n != len(headPath) && n != len(headQuery) && n != len(headDeadline) {
		return false // excludes most names at once; headType is as long as headQuery
	}
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case headMethod, headPath, headQuery, headDeadline, headType:
		return true
	}
	return false
}

// contentType returns the content type in the headers, whose name may have any case.
func contentType(h topic.Header) string { return said(h, headType) }

// said returns the value of a header from a worker, whose name may have any case: many libraries write lower case.
func said(h topic.Header, name string) string {
	if v := h.Get(name); v != "" {
		return v
	}
	for spelt, values := range h {
		if len(values) > 0 && strings.EqualFold(spelt, name) {
			return values[0]
		}
	}
	return ""
}

// answerOf converts a client's reply frame.
func answerOf(r *frame.Reply) *Answer {
	a := &Answer{Status: r.Status, ContentType: r.ContentType, Data: bytes.Clone(r.Data)}
	for name, values := range r.Headers {
		a.add(name, values)
	}
	if a.ContentType == "" {
		a.ContentType = contentType(topic.Header(r.Headers))
	}
	return a
}

// add adds a header, unless it is a separate field.
func (a *Answer) add(name string, values []string) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == headType || name == natsCode || name == natsText || strings.HasPrefix(name, ourPrefix) {
		return
	}
	if a.Header == nil {
		a.Header = make(frame.Headers)
	}
	a.Header[name] = append(a.Header[name], values...)
}

// message returns the answer as a message on the bus.
func (a *Answer) message() topic.Message {
	h := make(topic.Header, len(a.Header)+2)
	for name, values := range a.Header {
		h[name] = values
	}
	h[headStatus] = []string{strconv.Itoa(a.Status)}
	if a.ContentType != "" {
		h[headType] = []string{a.ContentType}
	}
	return topic.Message{Header: h, Data: a.Data}
}

// failure returns the message that replaces an answer when no worker gives one.
func failure(err error) topic.Message {
	status, why := "504", gone
	if errors.Is(err, ErrBusy) {
		status, why = "503", busy
	}
	if errors.Is(err, errBroken) {
		status, why = "502", broken
	}
	return topic.Message{Header: topic.Header{headStatus: {status}, headFailure: {why}, headType: {"text/plain"}}, Data: []byte(err.Error())}
}

// answer parses a reply. Replies of NATS services may lack a status and a type.
func answer(m topic.Message) (*Answer, error) {
	switch m.Header.Get(headFailure) {
	case gone:
		return nil, ErrWorkerGone
	case busy:
		return nil, ErrBusy
	case broken:
		return nil, errBroken
	}
	code, err := status(m.Header)
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: code, ContentType: contentType(m.Header), Data: m.Data}
	for name, values := range m.Header {
		a.add(name, values)
	}
	if a.Header.Check() != "" || (frame.Headers{headType: {a.ContentType}}).Check() != "" {
		return nil, &BadAnswerError{Why: "a name or a value of its headers is none of HTTP, or they have more than 16 KB"}
	}
	if text := said(m.Header, natsText); text != "" && len(a.Data) == 0 && a.Status >= 400 {
		a.Data, a.ContentType = []byte(text), "text/plain"
	}
	return a, nil
}

// status is the answer's.
func status(h topic.Header) (int, error) {
	text := said(h, headStatus)
	failed := text == ""
	if failed {
		if text = said(h, natsCode); text == "" {
			return 200, nil
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && n >= 200 && n <= 599 && (!failed || n >= 400):
		return n, nil
	case failed:
		return 500, nil // a NATS service failed with a code that is no HTTP status
	}
	return 0, &BadAnswerError{Why: "its status is no number from 200 to 599"}
}
