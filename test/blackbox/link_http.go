package blackbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

func (h Hello) query() url.Values {
	q := url.Values{"app": {h.App}, "recipient": {h.Recipient}}
	if h.Device != "" {
		q.Set("device", h.Device)
	}
	if h.Token != "" {
		q.Set("token", h.Token)
	}
	return q
}

// sseLink reads a stream of server-sent events and sends its frames by POST.
type sseLink struct {
	addr    string
	http    *http.Client
	body    io.ReadCloser
	lines   *bufio.Reader
	cancel  context.CancelFunc
	mu      sync.Mutex
	session string
}

func dialSSE(ctx context.Context, addr string, h Hello) (Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &sseLink{addr: addr, http: NewHTTPClient(), cancel: cancel}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/v1/stream?"+h.query().Encode(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		cancel()
		return nil, fmt.Errorf("stream: %s %s", resp.Status, b)
	}
	l.body, l.lines = resp.Body, bufio.NewReader(resp.Body)
	return l, nil
}

func (l *sseLink) Next(ctx context.Context) (*Frame, error) {
	stop := context.AfterFunc(ctx, l.cancel) // a body has no read deadline
	defer stop()
	var event string
	var data []byte
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && event != "":
			return l.frame(event, data)
		case name == "event":
			event = value
		case name == "data":
			data = append(data, value...)
		}
	}
}

func (l *sseLink) frame(event string, data []byte) (*Frame, error) {
	wrapped, err := json.Marshal(map[string]json.RawMessage{event: data})
	if err != nil {
		return nil, fmt.Errorf("event %s %q: %w", event, data, err)
	}
	var f Frame
	if err := json.Unmarshal(wrapped, &f); err != nil {
		return nil, err
	}
	if f.Welcome != nil {
		l.mu.Lock()
		l.session = f.Welcome.Session
		l.mu.Unlock()
	}
	return &f, nil
}

func (l *sseLink) Ack(ctx context.Context, ids ...string) error {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	body := map[string]any{"session": session, "frames": []any{ackFrame(ids)}}
	return postJSON(ctx, l.http, "http://"+l.addr+"/v1/frames", body, nil)
}

func (l *sseLink) Cut() {
	l.cancel()
	l.body.Close()
	l.http.CloseIdleConnections()
}

// pollLink polls. It acknowledges through /v1/acks, which needs no session.
type pollLink struct {
	addr    string
	http    *http.Client
	hello   Hello
	session string
	queue   []*Frame
	ctx     context.Context // ends the poll under way when the link is cut
	cancel  context.CancelFunc
}

func dialPoll(addr string, h Hello) Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &pollLink{addr: addr, http: NewHTTPClient(), hello: h, ctx: ctx, cancel: cancel}
}

func (l *pollLink) Next(ctx context.Context) (*Frame, error) {
	for len(l.queue) == 0 {
		if err := l.poll(ctx); err != nil {
			return nil, err
		}
	}
	f := l.queue[0]
	l.queue = l.queue[1:]
	if f.Welcome != nil {
		l.session = f.Welcome.Session
	}
	return f, nil
}

func (l *pollLink) poll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	q := l.hello.query()
	q.Set("wait", "20s")
	if l.session != "" {
		q.Set("session", l.session)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr+"/v1/poll?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("poll: %s %s", resp.Status, b)
	}
	var answer struct {
		Session string
		Frames  []*Frame
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	l.session, l.queue = answer.Session, answer.Frames
	return nil
}

func (l *pollLink) Ack(ctx context.Context, ids ...string) error {
	var answer struct{ Acked int }
	return postJSON(ctx, l.http, "http://"+l.addr+"/v1/acks?"+l.hello.query().Encode(), map[string]any{"ids": ids}, &answer)
}

func (l *pollLink) Cut() {
	l.cancel()
	l.http.CloseIdleConnections()
}

func postJSON(ctx context.Context, c *http.Client, address string, body, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err = io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s %s", req.URL.Path, resp.Status, b)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(b, answer)
}
