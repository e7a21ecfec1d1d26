package gatetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Query returns the options as a query string, equivalent to a hello.
func (o Options) Query() url.Values {
	q := url.Values{"app": {App}, "recipient": {o.Recipient}}
	if o.Group != "" {
		q.Set("group", o.Group)
	}
	if len(o.Objects) > 0 {
		q.Set("objects", strings.Join(o.Objects, ","))
	}
	if len(o.Topics) > 0 {
		q.Set("topics", strings.Join(o.Topics, ","))
	}
	if o.Queue != "" {
		q.Set("queue", o.Queue)
	}
	if o.Device != "" {
		q.Set("device", o.Device)
	}
	if o.Token != "" {
		q.Set("token", o.Token)
	}
	q["held"] = o.Held
	if o.Window > 0 {
		q.Set("window", strconv.Itoa(o.Window))
	}
	return q
}

// Get requests a path of the server. An answer other than 200 is a *Refused.
func (s *Server) Get(ctx context.Context, path string, q url.Values) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return s.do(req)
}

func (s *Server) do(req *http.Request) (*http.Response, error) {
	resp, err := s.HTTP.Client().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return nil, &Refused{Status: resp.StatusCode, Detail: string(body)}
	}
	return resp, nil
}

// Poster is the half of a client that posts its frames; it keeps the answers until the test reads them.
type Poster struct {
	Server  *Server
	Session string
	Answer  uint64 // the number of the last answer to a poll
	Answers []json.RawMessage
}

// Send posts one frame.
func (p *Poster) Send(ctx context.Context, frame string) error {
	body, err := json.Marshal(map[string]any{"session": p.Session, "frames": []json.RawMessage{json.RawMessage(frame)}})
	if err != nil {
		return err
	}
	at := p.Server.elsewhere()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL+"/v1/frames", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := at.do(req)
	if err != nil {
		return err
	}
	return p.Keep(resp)
}

// SendBad posts bytes that are no frame.
func (p *Poster) SendBad(ctx context.Context) error { return p.Send(ctx, `{"explode":{}}`) }

// Keep stores the frames of an answer.
func (p *Poster) Keep(resp *http.Response) error {
	defer resp.Body.Close()
	var answer struct {
		Session string            `json:"session"`
		Answer  uint64            `json:"answer"`
		Frames  []json.RawMessage `json:"frames"`
	}
	dec := json.NewDecoder(resp.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&answer); err != nil {
		return fmt.Errorf("answer is not {session, frames}: %w", err)
	}
	if answer.Session != "" {
		p.Session, p.Answer = answer.Session, answer.Answer
	}
	p.Answers = append(p.Answers, answer.Frames...)
	return nil
}

// Kept removes and returns the oldest stored frame.
func (p *Poster) Kept() (string, bool) {
	if len(p.Answers) == 0 {
		return "", false
	}
	f := p.Answers[0]
	p.Answers = p.Answers[1:]
	return string(f), true
}
