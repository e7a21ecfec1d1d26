package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/watch"
)

// outside is app shop with a hook orders, a sink and a source, and channel webhook with a secret; every text that can be hostile is.
type outside struct {
	hooks    hookBox
	sinks    sinkBox
	sources  sourceBox
	channels channelBox
}

// serve makes the pages use it.
func (o *outside) serve(c *admin.Config) {
	c.Objects, c.Presence = fleet{}, crowded{}
	c.Hooks, c.Sinks, c.Sources, c.Channels = &o.hooks, &o.sinks, &o.sources, &o.channels
}

type hookBox struct {
	set    []hook.Change
	tested int
	again  []uint64 // ids after which events were posted again
}

func (b *hookBox) info() hook.Info {
	return hook.Info{
		Hook:  hook.Hook{Name: "orders", URL: "https://user:s3cret@example.org/in?key=s3cret", Secrets: []string{"whsec_s3cret"}},
		State: hook.Failing, Progress: hook.Progress{LastError: hostile, Failing: time.Now()},
	}
}

func (b *hookBox) List(_ context.Context, app string) ([]hook.Info, error) {
	if app != "shop" {
		return nil, nil
	}
	return []hook.Info{b.info()}, nil
}

func (b *hookBox) Get(_ context.Context, app, name string) (hook.Info, error) {
	if app != "shop" || name != "orders" {
		return hook.Info{}, fmt.Errorf("hook %q: %w", name, hook.ErrUnknown)
	}
	return b.info(), nil
}

func (b *hookBox) Set(_ context.Context, _, _ string, c hook.Change) (hook.Info, bool, string, error) {
	b.set = append(b.set, c)
	return b.info(), false, "", nil
}

func (b *hookBox) Test(ctx context.Context, app, name string) error {
	if _, err := b.Get(ctx, app, name); err != nil {
		return err
	}
	b.tested++
	return &push.RetryError{Reason: hostile}
}

type sinkBox struct {
	set      []sink.Change
	progress sink.Progress
}

func (b *sinkBox) List(context.Context, string) ([]sink.Info, error) {
	i, err := b.Get(context.Background(), "shop", "clickhouse")
	return []sink.Info{i}, err
}

func (b *sinkBox) Get(_ context.Context, _, kind string) (sink.Info, error) {
	if kind != "clickhouse" {
		return sink.Info{}, sink.ErrUnknown
	}
	return sink.Info{
		Sink: sink.Sink{Kind: kind, Values: setting.Values{"password": setting.JSON("s3cret")}, Private: true}, View: setting.View{Addresses: []string{"https://ch.example"}},
		State: sink.Stopped, Progress: b.progress, Error: hostile,
	}, nil
}

func (b *sinkBox) Set(_ context.Context, _, _ string, c sink.Change) (sink.Info, bool, error) {
	b.set = append(b.set, c)
	return sink.Info{}, false, nil
}

type sourceBox struct {
	set, previewed []source.Change
	aside          int // entries in quarantine
}

func (b *sourceBox) List(string) []source.Info {
	i, _ := b.Get("shop", "redisstream")
	return []source.Info{i}
}

func (b *sourceBox) Get(_, kind string) (source.Info, error) {
	if kind != "redisstream" {
		return source.Info{}, source.ErrUnknown
	}
	values := setting.Values{}
	setting.Put(values, "recipients", []string{"anna"})
	return source.Info{Source: source.Source{Name: kind, Kind: kind, Values: values}, View: setting.View{Addresses: []string{"redis://r.example"}}, State: source.Running, Previews: true}, nil
}

func (b *sourceBox) Preview(_ context.Context, app, name string, c source.Change) (source.Preview, error) {
	if _, err := b.Get(app, name); err != nil {
		return source.Preview{}, err
	}
	b.previewed = append(b.previewed, c)
	row := json.RawMessage(`{"x":"<hostile onload=alert(1)>"}`)
	return source.Preview{Tables: []source.PreviewTable{{Table: hostile, Rows: []source.PreviewRow{{From: row, Entry: json.RawMessage(`{"becomes":"<b>this</b>"}`)}, {From: row, Error: hostile}}}, {Table: "empty"}, {Table: "gone", Error: hostile}}}, nil
}

func (b *sourceBox) Set(_ context.Context, _, _ string, c source.Change) (source.Info, bool, error) {
	b.set = append(b.set, c)
	return source.Info{}, false, nil
}

type channelBox struct {
	set   []channel.Change
	files []string // what was uploaded: type, name, address and content
}

func (b *channelBox) Upload(_ context.Context, _ string, ch push.Channel, address json.RawMessage, f *push.File) (func(context.Context) (string, error), error) {
	if ch != push.Telegram || f.Type == "hologram" {
		return nil, notification.BadField("type", "is no kind of file")
	}
	return func(context.Context) (string, error) {
		content, err := io.ReadAll(f.Body)
		b.files = append(b.files, fmt.Sprintf("%s %s %s %d %s", f.Type, f.Name, address, f.Size, content))
		if string(content) == "refused" {
			err = &push.PermanentError{Reason: "chat <not> found"}
		}
		return "FILE<7>", err
	}, nil
}

func (b *channelBox) List(app string) []channel.Info {
	i, _ := b.Get(app, push.Webhook)
	return []channel.Info{i}
}

func (b *channelBox) Get(_ string, ch push.Channel) (channel.Info, error) {
	if ch != push.Webhook {
		return channel.Info{}, channel.ErrUnknown
	}
	return channel.Info{Channel: ch, Configured: true, Enabled: true, Credentials: []string{"secrets"}, Settings: map[string]any{"targets": []string{hostile}, "public_key": hostile}}, nil
}

func (b *channelBox) Fields(push.Channel) ([]channel.Field, error) {
	return []channel.Field{{Name: "secrets", Type: channel.List, Secret: true}, {Name: "targets", Type: channel.List}, {Name: "updates", Type: channel.Bool}}, nil
}

func (b *channelBox) Set(_ context.Context, app string, ch push.Channel, c channel.Change) (channel.Info, channel.Values, error) {
	if strings.Contains(c.Values["targets"], "bad") {
		return channel.Info{}, nil, notification.BadField("targets", "is no URL: %s", hostile)
	}
	i, err := b.Get(app, ch)
	if err == nil {
		err = c.Must.Check("channel "+string(ch), setting.RevisionAt(i.UpdatedAt))
	}
	if err != nil {
		return channel.Info{}, nil, err
	}
	b.set = append(b.set, c)
	return i, channel.Values{"secrets": "whsec_made"}, err
}

func (b *channelBox) Check(context.Context, string, push.Channel) (string, error) {
	return hostile, nil
}

func (b *channelBox) Sender(context.Context, string, push.Channel) (push.Sender, error) {
	return accepting{}, nil
}

func newOutside(t *testing.T, change ...func(*admin.Config)) (*outside, *browser) {
	o := new(outside)
	return o, newWorld(t, append([]func(*admin.Config){o.serve}, change...)...).signedIn()
}

func TestHowHooksSinksAndSourcesStandIsShownWithoutTheirSecrets(t *testing.T) {
	_, b := newOutside(t)
	_, page := b.get("/ui/integrations")
	checkHarmless(t, "/ui/integrations", page)
	wants(t, page, "&lt;hostile", "failing", "stopped", "running", "https://example.org/in<", "redis://r.example", "/ui/sinks/clickhouse/resume", "/ui/sources/redisstream/pause", "/ui/hooks/orders/pause")
	if strings.Contains(page, "s3cret") {
		t.Error("the page shows a secret")
	}
}

// The page mentions recreated events only if the log had deleted some.
func TestASinksPageSaysWhatWasMadeAnewIfTheLogHadGaps(t *testing.T) {
	o, b := newOutside(t)
	o.sinks.progress = sink.Progress{Written: 14}
	_, page := b.get("/ui/integrations")
	if wants(t, page, `14 events written<`); strings.Contains(page, "made anew") {
		t.Error("a sink without gaps is said to have had some")
	}
	o.sinks.progress = sink.Progress{Written: 14, Gaps: 1, Reconciled: 10}
	_, page = b.get("/ui/integrations")
	wants(t, page, `14 events written <span class="hint">10 of them were made anew: the log had deleted them before.</span>`)
}

func TestPausingOnThePageKeepsSettings(t *testing.T) {
	o, b := newOutside(t)
	for path, want := range map[string]int{
		"/ui/hooks/orders/pause": 200, "/ui/sinks/clickhouse/resume": 200, "/ui/sources/redisstream/pause": 200,
		"/ui/hooks/none/pause": 404, "/ui/hooks/orders/explode": 404, "/ui/sinks/none/pause": 404, "/ui/sources/none/resume": 404, "/ui/hooks/none/test": 404,
	} {
		if status, _ := b.post(path, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if s := o.hooks.set; len(s) != 1 || *s[0].Enabled || s[0].URL != "https://user:s3cret@example.org/in?key=s3cret" || s[0].Secrets != nil {
		t.Errorf("the hook was set to %+v", s)
	}
	if s := o.sinks.set; len(s) != 1 || !*s[0].Enabled || s[0].Values != nil || !s[0].Private {
		t.Errorf("the sink was set to %+v", s)
	}
	if s := o.sources.set; len(s) != 1 || *s[0].Enabled || s[0].Values != nil {
		t.Errorf("the source was set to %+v", s)
	}
}

func TestATestOfAHookSaysWhatCameOfIt(t *testing.T) {
	o, b := newOutside(t)
	for _, by := range [][]string{nil, {"HX-Request", "true"}} {
		_, page := b.post("/ui/hooks/orders/test", nil, by...)
		checkHarmless(t, "test", page)
		wants(t, page, "retry", "The test event to orders")
	}
	if o.hooks.tested != 2 {
		t.Errorf("tested %d times", o.hooks.tested)
	}
}

func TestAPreviewOfASourceShowsRowsAndWhatTheyBecome(t *testing.T) {
	_, b := newOutside(t)
	_, page := b.get("/ui/integrations")
	wants(t, page, `formaction="/ui/sources/redisstream/preview"`)
	for _, by := range [][]string{nil, {"HX-Request", "true"}} {
		_, page := b.post("/ui/sources/redisstream/preview", nil, by...)
		checkHarmless(t, "preview", page)
		wants(t, page, "What rows of redisstream would become", "<code>{&#34;x&#34;:&#34;&lt;hostile", "<code>{&#34;becomes&#34;:&#34;&lt;b&gt;this&lt;/b&gt;&#34;}</code>", "quarantine</span> &#34;", "The table has no rows.", "<h3>gone</h3>", "failed</span> &#34;")
	}
	if status, _ := b.post("/ui/sources/none/preview", nil); status != http.StatusNotFound {
		t.Errorf("a preview of no source: %d", status)
	}
}

func TestAChannelsSecretsGoInAndNeverComeOut(t *testing.T) {
	o, b := newOutside(t)
	_, page := b.get("/ui/channels/webhook")
	checkHarmless(t, "channel", page)
	wants(t, page, `type="password"`, "set; what is left empty stays", "&lt;hostile")
	wants(t, page, "PUT /v1/channels/webhook", "A secret that a call leaves out stays as it is.")
	_, page = b.post("/ui/channels/webhook", url.Values{"then": {"save"}, "secrets": {""}, "remove-secrets": {"on"}, "targets": {"https://a.example\r\nhttps://b.example"}, "updates": {"on"}})
	wants(t, page, "Saved.", "shown this once", "whsec_made")
	if v := o.channels.set[0].Values; len(v) != 2 || v["targets"] != "https://a.example https://b.example" || v["updates"] != "true" {
		t.Errorf("set %d values: the secret that was left empty must stay", len(v))
	}
	_, page = b.post("/ui/channels/webhook", url.Values{"then": {"save"}, "secrets": {"whsec_typed"}, "targets": {"bad"}})
	checkHarmless(t, "refused", page)
	if wants(t, page, `id="targets-problem"`, "\nbad</textarea>"); strings.Contains(page, "whsec_typed") {
		t.Error("the page shows a secret that was typed")
	}
	b.post("/ui/channels/webhook", url.Values{"then": {"off"}})
	if c := o.channels.set[1]; c.Enabled == nil || *c.Enabled || len(c.Values) != 0 {
		t.Errorf("switching off set %+v", c)
	}
	if status, _ := b.get("/ui/channels/none"); status != http.StatusNotFound {
		t.Errorf("a channel that is none: %d", status)
	}
}

func TestOfTwoWhoChangeAChannelTheLaterIsTold(t *testing.T) {
	o, b := newOutside(t)
	_, page := b.get("/ui/channels/webhook")
	info, err := o.channels.Get("shop", "webhook")
	if err != nil {
		t.Fatal(err)
	}
	now := setting.RevisionAt(info.UpdatedAt)
	wants(t, page, `name="revision" value="`+now+`"`)
	mine := url.Values{"then": {"save"}, "revision": {"older"}, "targets": {"https://mine.example"}}
	status, page := b.post("/ui/channels/webhook", mine)
	if wants(t, page, "Somebody else has changed", "https://mine.example", `value="`+now+`"`); status != http.StatusConflict || len(o.channels.set) != 0 {
		t.Errorf("%d, and %d changes are made", status, len(o.channels.set))
	}
	mine.Set("revision", now)
	if status, _ := b.post("/ui/channels/webhook", mine); status != http.StatusOK || len(o.channels.set) != 1 {
		t.Errorf("again: %d, and %d changes are made", status, len(o.channels.set))
	}
}

func TestAChannelIsTried(t *testing.T) {
	_, b := newOutside(t)
	_, page := b.post("/ui/channels/webhook/test", url.Values{"to": {""}})
	checkHarmless(t, "check", page)
	wants(t, page, `<span class="state accepted">accepted</span>`, "&lt;hostile")
	_, page = b.post("/ui/channels/webhook/test", url.Values{"to": {"anna"}})
	wants(t, page, `<span class="state failed">`, "anna has no active address on this channel")
	_, page = b.post("/ui/channels/webhook/test", url.Values{"to": {hostile}})
	checkHarmless(t, "to", page)
}

// serverOf returns a server with two nodes, each of which holds leases of two apps.
func serverOf(sole bool) *watch.Server {
	w := watch.New()
	w.Refuse("shop", "POST /v1/notifications", 400, hostile)
	w.Refuse("", "GET /v1/stats", 401, "of nobody")
	s := watch.Alone(w, "node-a")
	s.Sole = func(string) bool { return sole }
	lag := 1400 * time.Millisecond
	s.Nodes = func(context.Context) (watch.Nodes, error) {
		return watch.Nodes{
			List: []watch.Node{
				{Name: "node-a", State: "self", Version: "1", Work: &watch.NodeWork{Backup: hostile, Lag: &lag, Commits: 41.25, Copies: 3, Queue: 17}},
				{Name: hostile, State: "missing", Version: hostile, Heard: time.Minute},
			},
			Owned:  []watch.Lease{{Name: "hooks/shop", Holder: hostile, Until: time.Now()}, {Name: "hooks/other", Holder: "node-a", Until: time.Now()}, {Name: "node/node-a", Holder: "node-a", Until: time.Now()}},
			Oldest: "process 12 of " + hostile,
		}, nil
	}
	s.Settings = func() []watch.Setting {
		return []watch.Setting{{Group: "Storage", Key: "data", Value: hostile, Default: "./godwit-data", Origin: hostile, Help: "where"}, {Group: "Storage", Key: "retain", Value: "7d", Default: "7d", Origin: "default"}}
	}
	return s
}

func TestTheServersPagesShowHostileTextAsText(t *testing.T) {
	_, b := newOutside(t, func(c *admin.Config) { c.Watch = serverOf(true) })
	for _, path := range []string{"/ui/nodes", "/ui/log", "/ui/settings", "/ui/log?kind=" + url.QueryEscape(hostile)} {
		status, page := b.get(path)
		if checkHarmless(t, path, page); status != http.StatusOK || !strings.Contains(page, "&lt;hostile") {
			t.Errorf("%s: %d, and the text is not there", path, status)
		}
	}
	_, page := b.get("/ui/log?kind=warning")
	wants(t, page, "There is nothing of the kind “warning”")
	_, page = b.get("/ui/nodes")
	wants(t, page, "hooks/other", "missing", "of different versions")
	work := regexp.MustCompile(`(?s)<table class="cards" id="working">.*?</table>`).FindString(page)
	wants(t, work, `data-label="Owns"><data value="1">1</data>`, `data-label="Late by">1 s`, `data-label="Commits a second">41.2`, `data-label="In the queue"><data value="17">17</data>`)
	wants(t, page, "The oldest snapshot in the database: process 12")
}

func TestPagesShowNoIntegrationOfOtherApps(t *testing.T) {
	_, b := newOutside(t, func(c *admin.Config) { c.Watch = serverOf(false) })
	_, log := b.get("/ui/log")
	_, nodes := b.get("/ui/nodes")
	if strings.Contains(log, "of nobody") || strings.Contains(nodes, "hooks/other") || strings.Contains(nodes, "process 12") || !strings.Contains(nodes, "hooks/shop") {
		t.Error("an app sees what is of the server as a whole, or of another")
	}
}

func TestSendsAndSettingsOnThePageAreAudited(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, func(c *admin.Config) { c.Publisher = new(counter) }, keep(&cfg))
	b := w.signedIn()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.post("/ui/send", url.Values{"key": {"n1"}, "to": {"anna"}, "title": {"Hi"}})
	b.post("/ui/send", url.Values{"key": {"n2"}, "to": {"anna"}})                                       // asked for wrongly
	b.post("/ui/send", url.Values{"key": {"n3"}, "to": {"anna"}, "title": {"Hi"}, "then": {"preview"}}) // changes nothing
	b.post("/ui/channels/webhook", url.Values{"then": {"save"}, "targets": {"https://a.example"}})
	b.post("/ui/channels/webhook", url.Values{"then": {"save"}, "targets": {"bad"}}) // refused
	b.post("/ui/channels/webhook/test", url.Values{"to": {""}})
	b.post("/ui/hooks/orders/pause", nil)
	b.post("/ui/hooks/none/pause", nil) // is not there
	want := "sign-in  done\nnotification.publish n1 done\nchannel.set webhook done\nchannel.test webhook done\nhook.pause orders done"
	if got := strings.Join(actions(t, &cfg, "shop"), "\n"); got != want {
		t.Errorf("remembered:\n%s\nwant:\n%s", got, want)
	}
}
