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

// forwardPatience limits a request on another node: a poll waits for a minute at most.
const forwardPatience = 90 * time.Second

// Forwarder forwards requests for a session to the node that holds the session: behind a proxy, a client's posts and polls reach any node.
// A nil Forwarder forwards nothing.
type Forwarder struct {
	Node string // this node's name; ids of sessions end with it
	// Ask sends a request to another node, which handles it with Serve.
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

// Forward answers a request for a session of another node. False: no other node holds the session. The id alone authorizes posts and polls,
// here and there.
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
		Fail(w, NoSession()) // the node is gone, and the session with it
		return true
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
	return true
}

// Serve handles a request that another node forwarded, with the handler of its path.
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

// recorded is an answer that is returned to the node that forwarded the request.
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
