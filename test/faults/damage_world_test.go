package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

const (
	recipients = 6
	each       = 30 // notifications per recipient, fewer than a session's window
	things     = 25 // objects and endpoints
)

// content is the stored data, by file and key.
type content map[string]map[string]string

func (c content) put(file, key, value string) {
	if c[file] == nil {
		c[file] = map[string]string{}
	}
	c[file][key] = value
}

func bodyOf(key string) string {
	n := 50 + len(key)*37%400
	if strings.HasSuffix(key, "7") {
		n = 9000 // so large that it takes overflow pages
	}
	return key + " " + strings.Repeat("b", n)
}

func recipient(i int) string { return fmt.Sprintf("unit-%d", i) }

// copyName identifies a recipient's copy of a notification.
func copyName(id, to string) string { return id + "@" + to }

// publishRange publishes the notifications of a range of numbers to every recipient, and one to all recipients for every second number. It
// returns how many were refused.
func publishRange(ctx context.Context, s *blackbox.Server, c content, from, to int) (refused int, err error) {
	api := s.API()
	api.HTTP.Timeout = 5 * time.Second
	all := make([]string, recipients)
	for r := range recipients {
		all[r] = recipient(r)
	}
	for i := from; i < to; i++ {
		if i%2 > 0 {
			continue
		}
		id := fmt.Sprintf("all-%d", i)
		a, err := api.Do(ctx, http.MethodPost, "/v1/notifications", map[string]any{"id": id, "to": all, "title": id, "body": bodyOf(id)})
		switch {
		case err != nil:
			return refused, err
		case a.Status == http.StatusOK:
			for _, r := range all {
				c.put("mailbox.db", copyName(id, r), bodyOf(id))
			}
		default:
			refused++
		}
	}
	for r := range recipients {
		for i := from; i < to; i++ {
			id := fmt.Sprintf("n-%d-%d", r, i)
			a, err := api.Do(ctx, http.MethodPost, "/v1/notifications", map[string]any{"id": id, "to": recipient(r), "title": id, "body": bodyOf(id)})
			switch {
			case err != nil:
				return refused, err
			case a.Status == http.StatusCreated:
				c.put("mailbox.db", copyName(id, recipient(r)), bodyOf(id))
			default:
				refused++
			}
		}
	}
	return refused, nil
}

// fillServer stores something in every file.
func fillServer(t *testing.T, s *blackbox.Server) content {
	t.Helper()
	c, ctx, api := content{}, t.Context(), s.API()
	if _, err := publishRange(ctx, s, c, 0, each/2); err != nil {
		t.Fatal(err)
	}
	for i := range things {
		name := fmt.Sprintf("o-%d", i)
		if a, err := api.Do(ctx, http.MethodPut, "/v1/objects/g/"+name, map[string]any{"version": fmt.Sprint(i + 1), "payload": name + strings.Repeat("p", 100*i)}); err != nil || a.Status >= 300 {
			t.Fatalf("put an object: %v %v", a, err)
		}
		a, err := api.Do(ctx, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "recipient": recipient(i % recipients), "address": map[string]any{"chat_id": 1000 + i}, "tags": []string{"all"}})
		if err != nil || a.Status != http.StatusCreated {
			t.Fatalf("register an endpoint: %v %v", a, err)
		}
		var made struct{ ID string }
		if err := a.JSON(&made); err != nil {
			t.Fatal(err)
		}
		c.put("campaign.db", made.ID, "")
		c.put("objects.db", name, "")
	}
	for i := range things { // a second version of each, which replaces the first
		name := fmt.Sprintf("o-%d", i)
		if a, err := api.Do(ctx, http.MethodPut, "/v1/objects/g/"+name, map[string]any{"version": fmt.Sprint(i + 2), "payload": name + strings.Repeat("q", 100*i)}); err != nil || a.Status >= 300 {
			t.Fatalf("put an object: %v %v", a, err)
		}
	}
	for i := range 5 {
		if out, err := s.Manage("app", "create", fmt.Sprintf("shop-%d", i), "--data", s.Dir); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c.put("apps.db", fmt.Sprintf("shop-%d", i), "")
	}
	if _, err := publishRange(ctx, s, c, each/2, each); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "the content can be read", func() error {
		now, err := readServer(ctx, s, c)
		if err == nil && len(now["events.db"]) < len(c["mailbox.db"]) {
			err = fmt.Errorf("%d events", len(now["events.db"]))
		}
		if err == nil {
			for file, kept := range now {
				for key, value := range kept {
					if file != "mailbox.db" {
						c.put(file, key, value)
					}
				}
			}
		}
		return err
	})
	return c
}

// readServer reads the server's state of all items in want.
func readServer(ctx context.Context, s *blackbox.Server, want content) (content, error) {
	c, api := content{}, s.API()
	api.HTTP.Timeout = 10 * time.Second
	var mu sync.Mutex
	var wg sync.WaitGroup
	for r := range recipients {
		wg.Go(func() {
			got := deliveries(ctx, s, recipient(r))
			mu.Lock()
			defer mu.Unlock()
			for id, body := range got {
				c.put("mailbox.db", copyName(id, recipient(r)), body)
			}
		})
	}
	wg.Wait()
	for file, path := range map[string]string{"objects.db": "/v1/objects/g/", "campaign.db": "/v1/endpoints/"} {
		for key := range want[file] {
			a, err := api.Do(ctx, http.MethodGet, path+url.PathEscape(key), nil)
			if err != nil {
				return nil, err
			}
			if a.Status == http.StatusOK && !strings.Contains(string(a.Body), `"unknown":true`) {
				c.put(file, key, stable(a.Body))
			}
		}
	}
	out, err := s.Manage("app", "list", "--data", s.Dir)
	if err == nil {
		for key := range want["apps.db"] {
			if strings.Contains(out, key) {
				c.put("apps.db", key, "")
			}
		}
	} else if strings.Contains(out, "hint:") {
		c["apps.db"] = want["apps.db"] // refused, with the reason
	}
	events(ctx, s, c, len(want["events.db"]))
	return c, nil
}

// stable returns an answer without the parts that change by themselves.
func stable(b []byte) string {
	var v map[string]any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	delete(v, "last_seen_at")
	out, _ := json.Marshal(v) // what was JSON before
	return string(out)
}

// patience is how long the test waits for data that may have been lost.
const patience = 5 * time.Second

// deliveries polls until everything has arrived that the server calls pending. It gives up early if the server reports damage.
func deliveries(ctx context.Context, s *blackbox.Server, to string) map[string]string {
	got, session := map[string]string{}, ""
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for last := time.Now(); time.Since(last) < patience; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL("/v1/poll")+"?wait=200ms&app=demo&recipient="+to+"&session="+session, nil)
		if err != nil {
			return got
		}
		resp, err := client.Do(req)
		if err != nil {
			return got
		}
		var answer struct {
			Session string
			Frames  []*blackbox.Frame
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || json.Unmarshal(b, &answer) != nil {
			return got
		}
		session = answer.Session
		for _, f := range answer.Frames {
			if f.Notification != nil {
				got[f.Notification.ID] = f.Notification.Body
				last = time.Now()
			}
		}
		if len(answer.Frames) == 0 && complete(ctx, s, to, len(got)) {
			return got
		}
	}
	return got
}

// complete reports whether a recipient has exactly n pending notifications, or the server answers that it does not know.
func complete(ctx context.Context, s *blackbox.Server, to string, n int) bool {
	api := s.API()
	if a, err := api.Do(ctx, http.MethodGet, "/readyz", nil); err != nil || a.Status != http.StatusOK {
		return true
	}
	a, err := api.Do(ctx, http.MethodGet, "/v1/recipients/"+to, nil)
	if err != nil {
		return true
	}
	var r struct{ Pending int }
	return a.Status == http.StatusNotFound || a.Status == http.StatusOK && a.JSON(&r) == nil && r.Pending <= n
}

func events(ctx context.Context, s *blackbox.Server, c content, want int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(patience, cancel)
	defer idle.Stop()
	n := 0
	_ = s.API().Events(ctx, "stored", func(e blackbox.Event) bool { // the read ends by itself if there are fewer
		idle.Reset(patience)
		c.put("events.db", string(e.EventID), e.Type+e.ID+e.To)
		n++
		return want == 0 || n < want
	})
}

func copyFolder(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "addresses.json" || e.Name() == "settings.json" || strings.HasSuffix(e.Name(), "-ballast") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
