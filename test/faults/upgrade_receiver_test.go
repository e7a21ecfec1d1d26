package faults

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// receiver accepts the server's posts.
type receiver struct {
	addr string
	mu   sync.Mutex
	took map[string][]string // by path: webhook-id, in order
	busy map[string]bool     // paths that answer 503
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{took: map[string][]string{}, busy: map[string]bool{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.addr = s.Listener.Addr().String()
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[req.URL.Path] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.took[req.URL.Path] = append(r.took[req.URL.Path], req.Header.Get("Webhook-Id"))
}

func (r *receiver) hold(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[path] = true
}

// ids returns the distinct ids that a path received.
func (r *receiver) ids(path string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(ids, r.took[path]...)
}

// under counts the posts to each path with a prefix.
func (r *receiver) under(prefix string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for path, ids := range r.took {
		if strings.HasPrefix(path, prefix) {
			n[path] = len(ids)
		}
	}
	return n
}
