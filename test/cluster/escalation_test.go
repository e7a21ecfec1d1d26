package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// phones accept webhooks, unless busy is set, and record the ids of messages by type and notification.
type phones struct {
	*httptest.Server
	mu   sync.Mutex
	busy bool
	got  map[string]map[string]bool
	came map[string]int
}

func openPhones(t *testing.T) *phones {
	t.Helper()
	p := &phones{got: map[string]map[string]bool{}, came: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var e struct {
			Type string
			Data struct {
				GodwitID string `json:"godwit_id"`
			}
		}
		_ = json.Unmarshal(body, &e)
		p.mu.Lock()
		defer p.mu.Unlock()
		key := e.Type + " " + e.Data.GodwitID
		p.came[key]++
		if p.busy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if p.got[key] == nil {
			p.got[key] = map[string]bool{}
		}
		p.got[key][q.Header.Get("Webhook-Id")] = true
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *phones) be(busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = busy
}

// wait waits until a webhook for a notification arrived, and returns the number of its message ids. If refused is true, refused ones count,
// too.
func (p *phones) wait(t *testing.T, kind, note string, refused bool) (ids int) {
	t.Helper()
	key := kind + " " + note
	blackbox.EventuallyWithin(t, 3*blackbox.Patience, kind+" for "+note, func() error { // a refusing host gets no requests for up to a minute
		p.mu.Lock()
		defer p.mu.Unlock()
		if ids = len(p.got[key]); ids == 0 && (!refused || p.came[key] == 0) {
			return fmt.Errorf("nothing came; all that came: %v", p.came)
		}
		return nil
	})
	return ids
}

// TestOwnerSendsStepsAndAnotherNodeAfterItIsKilled: whichever node publishes and whichever gets acknowledgements, one node pushes and
// withdraws. When it is killed after it has handed over steps that no channel has accepted, another node sends them.
func TestOwnerSendsStepsAndAnotherNodeAfterItIsKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	const riders, lease = 6, "campaigns/demo" // as the app's campaigns
	p, url := openPhones(t), pgtest.Database(t)
	c := Start(t, Options{Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Args("--allow-private-urls")}})
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	try := func(node int, method, path string, body any) error {
		a, err := c.Nodes[node].API().Do(t.Context(), method, path, body)
		if err == nil && a.Status >= 300 {
			err = fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		return err
	}
	call := func(node int, method, path string, body any) {
		t.Helper()
		if err := try(node, method, path, body); err != nil {
			t.Fatal(err)
		}
	}
	call(0, http.MethodPut, "/v1/channels/webhook", map[string]any{})
	for i := range riders {
		who := fmt.Sprint("rider-", i)
		call(0, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "recipient": who, "address": map[string]string{"url": p.URL + "/" + who}})
	}
	publish := func(node int, id string) {
		t.Helper()
		blackbox.Eventually(t, Name(node)+" knows of the channel", func() error {
			return try(node, http.MethodPost, "/v1/notifications", map[string]any{
				"to": "rider-" + id, "id": id, "title": "T", "escalate": []map[string]string{{"channel": "live"}, {"channel": "webhook", "after": "22h"}},
			})
		})
	}
	publish(1, "0")
	p.wait(t, "notification", "0", false)
	first := owner(t.Context(), t, db, lease)
	second, third := (first+1)%3, (first+2)%3
	for i, node := range []int{first, second} { // published on a node, settled on another
		id := fmt.Sprint(i)
		if i > 0 {
			publish(node, id)
		}
		p.wait(t, "notification", id, false)
		call(third, http.MethodDelete, "/v1/notifications/"+id, nil)
		p.wait(t, "notification.recall", id, false)
	}
	p.be(true)
	for i := 2; i < riders; i++ {
		publish([]int{first, second, third}[i%3], fmt.Sprint(i))
	}
	for i := 2; i < riders; i++ {
		p.wait(t, "notification", fmt.Sprint(i), true)
	}
	c.Nodes[first].Kill()
	p.be(false)
	for i := 2; i < riders; i++ {
		if ids := p.wait(t, "notification", fmt.Sprint(i), false); ids != 1 {
			t.Errorf("%d came under %d ids", i, ids)
		}
	}
	if now := owner(t.Context(), t, db, lease); now == first {
		t.Error("the node that was killed still owns the app")
	}
}
