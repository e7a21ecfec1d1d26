package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// forwardPatience is how long a request may take on another node: a poll waits for a minute at most.
const forwardPatience = 90 * time.Second

// Forwarder has requests for a session carried out on the node that has it: behind a proxy, a client's posts and polls come
// to any. A nil Forwarder forwards nothing.
type Forwarder struct {
	Node string // this node's name; ids of sessions end with it
	// Ask sends a request to another node, where Serve handles it.
	Ask func(ctx context.Context, node string, request any) (json.RawMessage, error)
}

// forwarded is a request to another node, forwardedAnswer the answer to it.
type forwarded struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	Body   []byte `json:"body,omitempty"`
}

type forwardedAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
}

// Forward answers a request for a session of another node; false: the session is none of another node's. The id alone is
// the right to post and poll, here as there.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, session string, body []byte) bool {
	at := strings.LastIndexByte(session, '.')
	if f == nil || at < 0 || session[at+1:] == f.Node {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), forwardPatience, fmt.Errorf("the node of the session did not answer in %s", forwardPatience))
	defer cancel()
	raw, err := f.Ask(ctx, session[at+1:], forwarded{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Body: body})
	var a forwardedAnswer
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil || a.Status == 0 {
		Fail(w, NoSession()) // its node is gone, and the session with it
		return true
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
	return true
}

// Serve handles a request that another node forwards, with the handler of its path.
func Serve(ctx context.Context, handlers map[string]http.Handler, request json.RawMessage) (any, error) {
	var f forwarded
	if err := json.Unmarshal(request, &f); err != nil {
		return nil, err
	}
	h := handlers[f.Path]
	if h == nil {
		return nil, fmt.Errorf("nothing is forwarded for %.100q", f.Path)
	}
	r, err := http.NewRequestWithContext(ctx, f.Method, f.Path, bytes.NewReader(f.Body))
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = f.Query
	w := &recorded{header: make(http.Header)}
	h.ServeHTTP(w, r)
	a := forwardedAnswer{Status: max(w.status, http.StatusOK), Header: map[string]string{}, Body: w.body.Bytes()}
	for _, name := range []string{"Content-Type", "Cache-Control", "Retry-After", "Allow"} {
		if v := w.header.Get(name); v != "" {
			a.Header[name] = v
		}
	}
	return a, nil
}

// recorded is an answer that is sent on.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

var _ io.Writer = (*recorded)(nil)

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorded) Write(b []byte) (int, error) { return w.body.Write(b) }
