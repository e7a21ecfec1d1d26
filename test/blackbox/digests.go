package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Gathering publishes notifications that gather into digests, while a test kills servers, and then checks that each is in exactly one digest.
type Gathering struct {
	Keys  int // digests, at least
	Items int // notifications of a key
	// Nodes are the servers to publish to; each may be down at times.
	Nodes []*Server

	t testing.TB
}

// Sizes of a Gathering.
const (
	keysOfOne        = 50  // keys of one recipient
	keysTogether     = 100 // keys whose notifications are published within a window
	gatherPublishers = 8
	gatherPatience   = 5 * time.Second // for one answer; a server that is killed gives none
)

// gatherCategory gathers by the field key; a digest of three leaves at once.
const (
	gatherCategory = "comment"
	gatherMost     = 3
)

func (g *Gathering) to(key int) string { return fmt.Sprint("reader-", key/keysOfOne) }

// Prepare makes the category gather. It must be called before a server is killed.
func (g *Gathering) Prepare(t testing.TB) {
	t.Helper()
	g.t = t
	g.Nodes[0].API().Call(t, http.MethodPut, "/v1/categories/"+gatherCategory, map[string]any{"digest": map[string]any{"window": "3s", "by": "key", "max": gatherMost}}, nil)
	for _, n := range g.Nodes {
		Eventually(t, "each node knows that the category gathers", func() error {
			a, err := n.API().Do(t.Context(), http.MethodGet, "/v1/categories/"+gatherCategory, nil)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("%d: %s", a.Status, a.Body)
			}
			return err
		})
	}
}

// Run publishes all notifications, repeating each with its id until it is accepted.
func (g *Gathering) Run() {
	t := g.t
	t.Helper()
	ids := make(chan [2]int)
	var wg sync.WaitGroup
	for range gatherPublishers {
		wg.Go(func() {
			for i := range ids {
				if err := Poll(context.Background(), 2*Patience, func() error { return g.publish(i[0], i[1]) }); err != nil {
					t.Errorf("item %v could not be published: %v", i, err)
				}
			}
		})
	}
	for from := 0; from < g.Keys; from += keysTogether {
		for item := range g.Items {
			for key := from; key < min(from+keysTogether, g.Keys); key++ {
				ids <- [2]int{key, item}
			}
		}
	}
	close(ids)
	wg.Wait()
}

func (g *Gathering) publish(key, item int) error {
	body := map[string]any{"to": g.to(key), "id": fmt.Sprintf("k%d-%d", key, item), "title": "T", "category": gatherCategory, "data": map[string]any{"key": key, "item": item}}
	return g.try(http.MethodPost, "/v1/notifications", body)
}

func (g *Gathering) try(method, path string, body any) error {
	ctx, cancel := context.WithTimeout(context.Background(), gatherPatience)
	defer cancel()
	api := g.Nodes[rand.N(len(g.Nodes))].API()
	defer api.HTTP.CloseIdleConnections()
	a, err := api.Do(ctx, method, path, body)
	if err == nil && a.Status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	return err
}

// gatheredDigest is a digest, as the API and its recipient know it.
type gatheredDigest struct {
	ID, To, Key, State string
	Count              int
	Items              []string
}

// Check waits until all digests have left, and checks that each notification is in exactly one, and that its recipient gets each digest once,
// with its count.
func (g *Gathering) Check(s *Server) {
	t := g.t
	t.Helper()
	api := s.API()
	EventuallyWithin(t, 3*Patience, "all digests leave", func() error {
		var page struct{ Items []gatheredDigest }
		a, err := api.Do(t.Context(), http.MethodGet, "/v1/digests?state=waiting&limit=1", nil)
		if err == nil {
			err = a.JSON(&page)
		}
		if err == nil && len(page.Items) > 0 {
			err = fmt.Errorf("%+v waits", page.Items[0])
		}
		return err
	})
	digests, in := g.read(api)
	for key := range g.Keys {
		for item := range g.Items {
			if id := fmt.Sprintf("k%d-%d", key, item); len(in[id]) != 1 {
				t.Errorf("%s is in the digests %v, want one", id, in[id])
			}
		}
	}
	if len(in) != g.Keys*g.Items {
		t.Errorf("the digests have %d notifications, want %d", len(in), g.Keys*g.Items)
	}
	for i := 0; i < g.Keys; i += max(1, g.Keys/40) {
		id := fmt.Sprintf("k%d-%d", i, rand.N(g.Items))
		if err := api.WantState(t.Context(), id, g.to(i), "digested"); err != nil {
			t.Error(err)
		}
	}
	got := make(map[string]int)
	for r := range (g.Keys + keysOfOne - 1) / keysOfOne {
		g.receive(s, g.to(r*keysOfOne), digests, got)
	}
	for id, d := range digests {
		if got[id] != d.Count {
			t.Errorf("digest %s of %d has told its recipient of %d", id, d.Count, got[id])
		}
	}
	t.Logf("%d notifications in %d digests", len(in), len(digests))
}

// read reads all digests, and in which ones each notification is.
func (g *Gathering) read(api *API) (digests map[string]gatheredDigest, in map[string][]string) {
	t := g.t
	t.Helper()
	digests, in = make(map[string]gatheredDigest), make(map[string][]string)
	for cursor := ""; ; {
		var page struct {
			Items []gatheredDigest
			Next  string `json:"next_cursor"`
		}
		api.Call(t, http.MethodGet, "/v1/digests?limit=500"+cursor, nil, &page)
		for _, d := range page.Items {
			api.Call(t, http.MethodGet, "/v1/digests/"+d.ID, nil, &d)
			if d.State != "sent" || d.Count != len(d.Items) || d.Count > gatherMost {
				t.Errorf("digest %+v", d)
			}
			for _, id := range d.Items {
				if !strings.HasPrefix(id, "k"+d.Key+"-") {
					t.Errorf("%s of key %s has %s", d.ID, d.Key, id)
				}
				in[id] = append(in[id], d.ID)
			}
			digests[d.ID] = d
		}
		if page.Next == "" {
			return digests, in
		}
		cursor = "&cursor=" + page.Next
	}
}

// receive reads a recipient's mailbox, and adds up how many notifications each digest tells of.
func (g *Gathering) receive(s *Server, to string, digests map[string]gatheredDigest, got map[string]int) {
	t := g.t
	t.Helper()
	want := make(map[string]bool)
	for id, d := range digests {
		if d.To == to {
			want[id] = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	l, err := s.Dial(ctx, "ws", Hello{App: "demo", Recipient: to})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Cut()
	for len(want) > 0 {
		n, err := NextNotification(ctx, l)
		if err != nil {
			t.Fatalf("%s misses %d digests: %v", to, len(want), err)
		}
		if !want[n.ID] {
			t.Errorf("%s gets %s twice, or what is no digest: %s", to, n.ID, n.Data)
		}
		delete(want, n.ID)
		got[n.ID] += countOf(n)
		if err := l.Ack(ctx, n.ID); err != nil {
			t.Fatal(err)
		}
	}
	var history struct{ Items []struct{ ID, Status string } }
	s.API().Call(t, http.MethodGet, "/v1/recipients/"+to+"/notifications?limit=500", nil, &history)
	ids := make([]string, len(history.Items))
	for i := range history.Items {
		ids[i] = history.Items[i].ID
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(history.Items) {
		t.Errorf("%s has a digest twice", to)
	}
	for _, id := range ids {
		if d := digests[id]; d.To != to {
			t.Errorf("%s has notification %s, which is no digest of it", to, id)
		}
	}
}

// countOf returns of how many notifications a digest tells; one that is alone leaves as it was published.
func countOf(n *Notification) int {
	var data struct{ Digest struct{ Count int } }
	if json.Unmarshal(n.Data, &data) == nil && data.Digest.Count > 0 {
		return data.Digest.Count
	}
	return 1
}
