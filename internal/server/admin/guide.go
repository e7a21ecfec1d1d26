package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
)

// AppSettings reads and changes the settings of apps.
type AppSettings interface {
	App(name string) (access.App, error)
	SetApp(ctx context.Context, name string, change access.AppChange) error
	SetGuide(ctx context.Context, app, name string, state access.GuideState) error
	resource.Named
}

// Names of the guides: what an app wants to reach.
const (
	goalBrowsers = "browsers"
	goalBot      = "bot"
	goalPhones   = "phones"
	goalLive     = "live"
	goalAll      = "start" // the choice of a guide on the overview, which can be put away as well
)

// goal describes a guide.
type goal struct {
	Name, Title, Text string
	channels          []push.Channel
	Docs              string // page of the documentation
	Reached           string // what is said in the end
}

// goals are the guides in the order of the overview.
var goals = []goal{
	{goalBrowsers, "Visitors of a website", "A push to their browser, also after they have left your site.", []push.Channel{push.WebPush}, "/docs/guides/web-push", "You can reach your visitors now."},
	{goalBot, "People who write to a bot", "Messages in Telegram to everybody who has started your bot.", []push.Channel{push.Telegram}, "/docs/guides/channels#telegram", "You can reach the bot’s people now."},
	{goalPhones, "People with your phone app", "Android and iPhone, through Firebase or Apple.", []push.Channel{push.FCM, push.APNs}, "/docs/guides/phones", "You can reach your app’s people now."},
	{goalLive, "Whoever is connected now", "A page, app or device with an open connection, in milliseconds.", []push.Channel{push.Live}, "/docs/guides/listen", "You can reach whoever is connected now."},
}

func goalNamed(name string) (*goal, bool) {
	i := slices.IndexFunc(goals, func(g goal) bool { return g.Name == name })
	if i < 0 {
		return nil, false
	}
	return &goals[i], true
}

// goalOf returns the guide of a channel; nil: it has none.
func goalOf(ch push.Channel) *goal {
	i := slices.IndexFunc(goals, func(g goal) bool { return slices.Contains(g.channels, ch) })
	if i < 0 {
		return nil
	}
	return &goals[i]
}

// guideStep is a step of a guide.
type guideStep struct {
	Name, Title string
	Done        bool
	Current     bool // the first step that is not done
	Number      int
}

// guide is a goal with the app's progress.
type guide struct {
	*goal
	Steps    []guideStep
	Done     int
	App      string
	Server   string // origin of this server, for snippets
	Insecure bool   // the server is not reached over https, and from other machines
	Origins  []string
	Dev      bool  // of a development server: pages of this machine are allowed unnamed, and clients need no token
	Known    []met // who came first
	Ready    bool  // a channel can send

	// The result of what the person has just done.
	Problem string
	Failed  string // the action that the problem is with
	Typed   string // what it was given
	About   string // what the provider says of the credentials
	Sent    *channelTest
	Token   *madeToken
}

// met is somebody whom the guide can send a test to.
type met struct {
	ID    string // of the endpoint, or the recipient's name
	Name  string
	Since time.Time
}

// complete reports whether all steps are done.
func (g *guide) complete() bool { return g.Done == len(g.Steps) }

// isDone reports whether a step is done.
func (g *guide) isDone(step string) bool {
	return slices.ContainsFunc(g.Steps, func(s guideStep) bool { return s.Name == step && s.Done })
}

// problemIn returns the problem with an action; empty: there is none.
func (g *guide) problemIn(action string) string {
	if g.Failed != action {
		return ""
	}
	return g.Problem
}

// snippet is text to copy into another place.
type snippet struct{ ID, Label, Text string }

// begun reports whether somebody has done a step that is not done by itself.
func (g *guide) begun() bool { return g.Done > 1 || g.Done == 1 && !g.Dev }

// events returns the path of the guide's stream.
func (g *guide) events() string { return "/ui/start/" + g.Name + endless }

// worker returns the content of the file that a site needs.
func (g *guide) worker() string { return `importScripts("` + g.Server + `/sdk/sw.js");` }

// tag returns the line that a site's pages need.
func (g *guide) tag() string {
	return `<script src="` + g.Server + `/sdk/godwit.js" data-app="` + g.App + `" async></script>`
}

// page returns a page's script that opens a live connection.
func (g *guide) page() string {
	token, who := `, token: "TOKEN"`, "anna"
	switch {
	case g.Token != nil:
		token, who = `, token: "`+g.Token.Text+`"`, g.Token.Recipient
	case g.Dev:
		token = ""
	}
	return fmt.Sprintf(`<script type="module">
  import { Client } from "%s/sdk/live.js";
  const client = new Client("%s", { app: "%s"%s });
  client.listen("%s", (n) => alert(n.title));
</script>`, g.Server, g.Server, g.App, token, who)
}

// call returns the call of the API that registers an address.
func (g *guide) call() string {
	address := `{"channel":"telegram","recipient":"anna","address":{"chat_id":"CHAT_ID"}}`
	if g.Name == goalPhones {
		address = `{"channel":"fcm","recipient":"anna","address":{"token":"DEVICE_TOKEN"}}`
	}
	return fmt.Sprintf(`curl %s/v1/endpoints \
  -H "Authorization: Bearer API_KEY" \
  -d '%s'`, g.Server, address)
}

// mostMet limits the people that a guide offers for a test; it looks at the first firstMet.
const mostMet, firstMet = 3, 50

// guideOf reads how far an app is with a goal.
func (a *admin) guideOf(v *visit, about *goal) (*guide, error) {
	ctx, app := v.r.Context(), v.person.App
	set, err := a.Settings.App(app)
	if err != nil {
		return nil, err
	}
	g := &guide{goal: about, App: app, Server: a.server(v), Origins: set.AnonymousOrigins}
	g.Insecure = !strings.HasPrefix(g.Server, "https://") && !onThisMachine(g.Server)
	g.Dev = a.Dev && app == access.DevApp
	g.Ready = slices.ContainsFunc(about.channels, func(ch push.Channel) bool { return a.Ready(ctx, app, ch) })
	met, err := a.meet(v, g)
	if err != nil {
		return nil, err
	}
	add := func(name, title string, done bool) {
		g.Steps = append(g.Steps, guideStep{Name: name, Title: title, Done: done, Number: len(g.Steps) + 1})
	}
	switch about.Name {
	case goalBrowsers:
		add("origin", v.t("Name your site"), g.Dev || len(g.Origins) > 0)
		add("embed", v.t("Put one file and one line into it"), met)
		add("visitor", v.t("Wait for the first visitor"), met)
	case goalBot:
		add("bot", v.t("Connect the bot"), g.Ready)
		add("chat", v.t("Wait for the first person to press Start"), met)
	case goalPhones:
		add("account", v.t("Connect Firebase or Apple"), g.Ready)
		add("device", v.t("Wait for the first phone"), met)
	case goalLive:
		g.Origins = set.Origins
		add("page", v.t("Open a connection"), met)
	}
	add("test", v.t("Send yourself a test"), set.Guides[about.Name] == access.GuideTested)
	g.mark()
	return g, nil
}

// mark counts the steps that are done and finds the current one.
func (g *guide) mark() {
	for i := range g.Steps {
		if g.Steps[i].Done {
			g.Done++
		}
	}
	if i := slices.IndexFunc(g.Steps, func(s guideStep) bool { return !s.Done }); i >= 0 {
		g.Steps[i].Current = true
	}
}

// meet finds the first people whom the guide's channels reach, and reports whether there was one.
func (a *admin) meet(v *visit, g *guide) (bool, error) {
	ctx, app := v.r.Context(), v.person.App
	if g.Name == goalLive {
		list, _, err := a.Recipients.List(ctx, app, "", firstMet, "")
		for _, r := range list {
			if len(r.Sessions) > 0 && len(g.Known) < mostMet {
				g.Known = append(g.Known, met{ID: r.Name, Name: r.Name, Since: r.Sessions[0].ConnectedAt})
			}
		}
		return len(g.Known) > 0 || slices.ContainsFunc(list, func(r *recipient.View) bool { return !r.LastSeen.IsZero() }), err
	}
	sel, err := (&audience.Audience{Channels: g.channels}).Select("")
	if err != nil {
		return false, err
	}
	list, _, _, err := a.Audience.List(ctx, app, audience.Active, sel, 0, firstMet)
	if err != nil {
		return false, err
	}
	for i := len(list) - 1; i >= 0 && len(g.Known) < mostMet; i-- { // the newest of them first: most likely the person's own
		g.Known = append(g.Known, met{ID: list[i].ID.String(), Name: nameOf(v.lang, &list[i]), Since: list[i].CreatedAt})
	}
	return len(list) > 0, nil
}

// nameOf returns what people call an endpoint: who it belongs to, or the browser.
func nameOf(l *words.Language, e *audience.Endpoint) string {
	for _, name := range []string{"name", "first_name"} {
		if value, ok := e.Attributes[name]; ok && value.String() != "" {
			return clip(value.String(), 60)
		}
	}
	if e.Recipient != "" {
		return e.Recipient
	}
	return deviceOf(l, e)
}

// browserHosts are the push services of browsers. A host that begins with a dot stands for all hosts below it.
var browserHosts = []struct{ host, browser string }{
	{"fcm.googleapis.com", "Chrome"},
	{"android.googleapis.com", "Chrome"},
	{".push.services.mozilla.com", "Firefox"},
	{".push.apple.com", "Safari"},
	{".notify.windows.com", "Edge"},
}

// deviceOf returns what an endpoint leads to, without anything that is secret: a browser, a chat, a device.
func deviceOf(l *words.Language, e *audience.Endpoint) string {
	var address struct {
		Endpoint string `json:"endpoint"`
	}
	_ = json.Unmarshal(e.Address, &address) // registration has checked the address
	switch {
	case e.Channel == push.FCM:
		return l.T("Phone, through Firebase")
	case e.Channel == push.APNs:
		return l.T("Apple device")
	case address.Endpoint == "":
		return upperFirst(leadsTo(l, e))
	}
	at := host(address.Endpoint)
	for _, known := range browserHosts {
		if at == known.host || strings.HasPrefix(known.host, ".") && strings.HasSuffix(at, known.host) {
			return known.browser
		}
	}
	return l.T("Browser at %s", at)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// server returns the origin of this server as the visitor reaches it.
func (a *admin) server(v *visit) string {
	if a.Origin != "" {
		return a.Origin
	}
	scheme := "http"
	if a.TLS || v.r.TLS != nil || v.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	u, err := url.Parse(scheme + "://" + v.r.Host)
	if err != nil || u.Host != v.r.Host || u.Path != "" || strings.ContainsAny(u.Host, `"'<>\`) {
		return "https://push.example.org"
	}
	return u.String()
}

// onThisMachine reports whether an origin is one of the machine itself, which browsers trust without https.
func onThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1")
}
