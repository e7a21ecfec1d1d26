package fcmserver

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/testservice"
)

func (s *Server) serveSend(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.PathValue("project") != s.opts.Project || r.PathValue("call") != "messages:send":
		answers[NoProject].write(w, Behaviour{})
		return
	case !s.works(access):
		answers[Unauthenticated].write(w, Behaviour{})
		return
	}
	e, refused := parse(body)
	if refused != "" {
		s.problem(refused + ": " + string(body))
		badField("message", refused).write(w, Behaviour{})
		return
	}
	b := s.behaves(e)
	if s.opts.Told != nil && !e.ValidateOnly {
		s.opts.Told(e.Message.Data["godwit_id"], b.Row == Accept)
	}
	switch b.Row {
	case Hang, Break, Accept, Garbage:
		s.deliver(e, r.ProtoMajor, b.Row)
	}
	if !testservice.Wait(r.Context(), s.closed, b.Row == Hang, b.Delay) {
		return
	}
	switch b.Row {
	case Break:
		panic(http.ErrAbortHandler)
	case Accept:
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = io.WriteString(w, "{\n  \"name\": \"projects/"+s.opts.Project+"/messages/0:"+rand.Text()+"\"\n}\n")
	default:
		answers[b.Row].write(w, b)
	}
}

func (s *Server) works(access string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access[access]
}

// behaves returns the answer to a message.
func (s *Server) behaves(e *envelope) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[e.Message.Token]
	b := Behaviour{Row: Malformed}
	switch {
	case e.Message.Topic != "":
		b = Behaviour{}
	case d != nil:
		b = d.next()
	}
	if s.all != nil {
		b = *s.all
	}
	switch {
	case !s.within(time.Now()):
		b = Behaviour{Row: Quota, RetryAfter: time.Second}
	case e.ValidateOnly && b.Question != "":
		b.Row = b.Question
	case b.Row == Disliked && e.ValidateOnly && e.empty():
		b = Behaviour{}
	case b.Row == Accept && e.size() > maxPayload:
		b = Behaviour{Row: Disliked}
	}
	return b
}

// within reports whether the cap allows one more message, and if so counts it.
func (s *Server) within(now time.Time) bool {
	if s.opts.Cap == 0 {
		return true
	}
	for len(s.recent) > 0 && now.Sub(s.recent[0]) >= time.Second {
		s.recent = s.recent[1:]
	}
	if len(s.recent) >= s.opts.Cap {
		return false
	}
	s.recent = append(s.recent, now)
	return true
}

func (d *device) next() Behaviour {
	b := d.behaviour
	if b.Times > 0 {
		if d.left == 0 {
			return Behaviour{}
		}
		d.left--
	}
	return b
}

// deliver delivers a message to its device.
func (s *Server) deliver(e *envelope, proto int, row Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.ValidateOnly {
		s.validated++
		return
	}
	if row == Accept {
		s.accepted++
	}
	d := s.devices[e.Message.Token]
	if d == nil || s.opts.Quick {
		return
	}
	m := &e.Message
	d.got = append(d.got, Message{Proto: proto, At: time.Now(), Data: m.Data, Android: m.Android, APNs: m.APNs, WebPush: m.WebPush})
}
