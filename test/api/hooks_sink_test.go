package api

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// house accepts batches like ClickHouse: a repeated batch with the same token counts once. Now and then it is unreachable.
type house struct {
	mu     sync.Mutex
	tokens map[string]bool
	events map[string]int // number of occurrences of each event, by type and id
	asked  int
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := r.URL.Query().Get("insert_deduplication_token")
	if token == "" { // a statement of the schema
		_, _ = io.WriteString(w, "1\n")
		return
	}
	if h.asked++; h.asked%3 == 0 {
		http.Error(w, "Code: 202. DB::Exception: Too many simultaneous queries", http.StatusServiceUnavailable)
		return
	}
	if h.tokens[token] {
		return
	}
	zip, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var names []string
	for lines := bufio.NewScanner(zip); lines.Scan(); {
		var e struct{ Type, ID string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		names = append(names, e.Type+" "+e.ID)
	}
	if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("X-Clickhouse-Key") != "sekret" {
		http.Error(w, "not compressed, or another password", http.StatusForbidden)
		return
	}
	h.tokens[token] = true
	for _, name := range names {
		h.events[name]++
	}
}

func TestSinkHasEveryEventOnceThroughKills(t *testing.T) {
	blackbox.Long(t)
	const rounds, each = 3, 40
	h := &house{tokens: map[string]bool{}, events: map[string]int{}}
	clickhouse := httptest.NewServer(h)
	t.Cleanup(clickhouse.Close)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	a, err := server.API().Do(t.Context(), http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"url": clickhouse.URL, "user": "godwit", "password": "sekret"})
	if err != nil || a.Status != http.StatusCreated || strings.Contains(string(a.Body), "sekret") {
		t.Fatalf("%+v, %v", a, err)
	}
	want := map[string]bool{}
	for round := range rounds {
		for i := range each {
			id := fmt.Sprintf("n-%d-%d", round, i)
			want["stored "+id] = true
			if err := server.API().Publish(t.Context(), map[string]any{"to": "ann", "id": id, "title": "Hi"}); err != nil {
				t.Fatal(err)
			}
		}
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	blackbox.Eventually(t, "every event to be there", func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for name := range want {
			if h.events[name] == 0 {
				return fmt.Errorf("%s is missing; %d of %d are there", name, len(h.events), len(want))
			}
		}
		return nil
	})
	h.mu.Lock()
	for name, n := range h.events {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	h.mu.Unlock()
	a, err = server.API().Do(t.Context(), http.MethodGet, "/v1/sinks/clickhouse", nil)
	var now struct {
		State string
		LagMS int `json:"lag_ms"`
	}
	if err != nil || a.JSON(&now) != nil || now.State != "writing" && now.State != "failing" {
		t.Errorf("%v, %+v", err, a)
	}
}
