package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world serves the pages over real stores, real access control and a real campaign service whose senders accept every message.
type world struct {
	*testing.T
	srv    *httptest.Server
	access *access.Registry
	store  *campaigndb.Store
	shelf  *template.Service
	crowds *segment.Service
	key    string // of app shop, role admin
}

type senders struct{}

func (senders) Sender(_ context.Context, _ string, ch push.Channel) (push.Sender, error) {
	if ch != push.Webhook {
		return nil, &push.ConfigError{Reason: "it is not set up"}
	}
	return accepting{}, nil
}

type accepting struct{}

func (accepting) Send(context.Context, push.Request) (push.Receipt, error) {
	return push.Receipt{}, nil
}

func newWorld(t *testing.T, change ...func(*admin.Config)) *world {
	t.Helper()
	return newWorldWith(t, access.Config{}, change...)
}

func newWorldWith(t *testing.T, rules access.Config, change ...func(*admin.Config)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	apps := sqlitetest.Apps(t, log)
	registry, err := access.NewRegistry(t.Context(), apps, rules, log)
	must(t, err)
	t.Cleanup(registry.Close)
	store := sqlitetest.Campaigns(t)
	w := &world{T: t, access: registry, store: store, shelf: template.New(apps, time.Now), crowds: segment.New(&apps.Segments, time.Now)}
	for _, name := range []string{"shop", "other"} {
		must(t, registry.CreateApp(t.Context(), name, access.AppChange{}))
	}
	w.key = w.newKey("shop", access.Admin)

	out, err := dispatch.New(dispatch.Config{Senders: senders{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	service := campaign.New(campaign.Config{Store: store, PublicURL: "https://push.example.org", Dispatch: out, Segments: w.crowds, Log: log})
	w.crowds.AskBeforeDeletion(service.UsesSegment)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })

	cfg := admin.Config{
		SignInParts: admin.SignInParts{Access: registry, Logins: signin.NewLogins(apps, time.Now)},
		CampaignParts: admin.CampaignParts{
			Campaigns: service, Audience: endpoint.New(endpoint.Config{Store: store, Now: time.Now}), Templates: w.shelf, Segments: w.crowds,
			Ready: func(ctx context.Context, app string, ch push.Channel) bool {
				_, err := senders{}.Sender(ctx, app, ch)
				return err == nil
			},
		},
		IntegrationParts: admin.IntegrationParts{Settings: registry, Keys: registry},
		Audit:            audit.New(apps, time.Now, log), Log: log, Version: "test",
	}
	new(outside).serve(&cfg)
	cfg.Recipients = new(post)
	for _, c := range change {
		c(&cfg)
	}
	h, err := admin.New(cfg)
	must(t, err)
	w.srv = httptest.NewServer(h)
	t.Cleanup(w.srv.Close)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) newKey(app string, roles access.Role) string {
	_, secret, err := w.access.CreateKey(w.Context(), app, "", roles)
	must(w.T, err)
	return secret
}

// subscribe adds webhook endpoints to an app.
func (w *world) subscribe(app string, tags ...string) {
	w.Helper()
	address, err := audience.NormalAddress(push.Webhook, json.RawMessage(`{"url":"https://example.org/`+app+strings.Join(tags, "-")+`"}`))
	must(w.T, err)
	done, err := w.store.Register(w.Context(), app, []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
		App: app, Channel: push.Webhook, Address: address, Tags: tags, Status: audience.Active,
	}}})
	must(w.T, err)
	must(w.T, done[0].Err)
}

// browser keeps cookies and follows redirects, as a person's does.
type browser struct {
	*world
	client *http.Client
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	must(w.T, err)
	c := &http.Client{Jar: jar}
	w.Cleanup(c.CloseIdleConnections)
	return &browser{w, c}
}

func (w *world) signedIn() *browser {
	b := w.browser()
	if status, page := b.post("/ui/sign-in", url.Values{"key": {w.key}}); status != http.StatusOK || !strings.Contains(page, "Nothing needs attention") {
		w.Fatalf("signing in ends with %d:\n%s", status, page)
	}
	return b
}

func (b *browser) do(req *http.Request) (*http.Response, string) {
	b.Helper()
	resp, err := b.client.Do(req)
	must(b.T, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(b.T, err)
	return resp, string(body)
}

func (b *browser) get(path string, headers ...string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.srv.URL+path, nil)
	must(b.T, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, body := b.do(req)
	return resp.StatusCode, body
}

func (b *browser) post(path string, form url.Values, headers ...string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.srv.URL+path, strings.NewReader(form.Encode()))
	must(b.T, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, body := b.do(req)
	return resp.StatusCode, body
}

// numbers matches the elements around numbers, which the script rewrites in the reader's language.
var numbers = regexp.MustCompile(`</?data[^>]*>`)

// wants fails if a page lacks a part; the parts may be given without the elements around numbers.
func wants(t *testing.T, page string, parts ...string) {
	t.Helper()
	plain := numbers.ReplaceAllString(page, "")
	for _, p := range parts {
		if !strings.Contains(page, p) && !strings.Contains(plain, p) {
			t.Errorf("the page lacks %q:\n%s", p, page)
		}
	}
}
