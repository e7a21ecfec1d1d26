package admin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/webhost"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// newFor is how long the overview of an app begins with the guides, unless they are put away.
const newFor = 30 * 24 * time.Hour

// start is the choice of a guide on the overview, with the chosen one.
type start struct {
	Goals  []*guide
	Chosen *guide // nil: none
}

// startOf returns what the overview of a new app begins with; nil: nothing.
func (a *admin) startOf(v *visit) (*start, error) {
	set, err := a.Settings.App(v.person.App)
	if err != nil || set.Guides[goalAll] == access.GuideAway || a.now().Sub(set.CreatedAt) > newFor {
		return nil, err
	}
	s := &start{}
	begun := 0
	for i := range goals {
		if set.Guides[goals[i].Name] == access.GuideAway {
			continue
		}
		g, err := a.guideOf(v, &goals[i])
		if err != nil {
			return nil, err
		}
		s.Goals = append(s.Goals, g)
		if g.begun() {
			begun++
		}
	}
	if len(s.Goals) == 0 {
		return nil, nil
	}
	chosen := text(v.r.URL.Query(), "goal")
	for _, g := range s.Goals {
		if g.Name == chosen || chosen == "" && begun == 1 && g.begun() {
			s.Chosen = g
		}
	}
	return s, nil
}

// channelGuide returns the guide for the page of a channel: while the channel is not ready, or the app is new; nil: none.
func (a *admin) channelGuide(v *visit, ch push.Channel, ready bool) (*guide, error) {
	about := goalOf(ch)
	if about == nil {
		return nil, nil
	}
	set, err := a.Settings.App(v.person.App)
	if err != nil || set.Guides[about.Name] == access.GuideAway || ready && a.now().Sub(set.CreatedAt) > newFor {
		return nil, err
	}
	return a.guideOf(v, about)
}

// ready reports whether a channel can send and somebody can come to it: browsers register only from pages of a site that is named, by a
// client's token or over the API, so Web Push waits for one of these.
func (a *admin) ready(v *visit, ch push.Channel, active int64) bool {
	ctx, app := v.r.Context(), v.person.App
	if !a.Ready(ctx, app, ch) {
		return false
	}
	if ch != push.WebPush || active > 0 || a.Dev && app == access.DevApp {
		return true
	}
	set, err := a.Settings.App(app)
	return err == nil && len(set.AnonymousOrigins)+len(set.Origins) > 0
}

// guideInPath finds the guide that the path names.
func (a *admin) guideInPath(v *visit) (*guide, error) {
	about, ok := goalNamed(v.r.PathValue("goal"))
	if !ok {
		return nil, mistaken(http.StatusNotFound, "There is no such guide.")
	}
	return a.guideOf(v, about)
}

func (a *admin) showGuide(v *visit) error {
	g, err := a.guideInPath(v)
	if err != nil {
		return err
	}
	return a.guidePage(v, http.StatusOK, g)
}

func (a *admin) guidePage(v *visit, status int, g *guide) error {
	a.answer(v, status, "start", "page", frame{Title: v.t(g.Title), Here: "overview", Person: v.person, Version: a.Version, Content: g})
	return nil
}

// acted shows a guide after an action: as the part that htmx replaces, or as a page of its own.
func (a *admin) acted(v *visit, change func(*guide)) error {
	g, err := a.guideInPath(v)
	if err != nil {
		return err
	}
	change(g)
	status := http.StatusOK
	if g.Problem != "" {
		v.again, status = true, http.StatusUnprocessableEntity
	}
	if v.r.Header.Get("HX-Request") != "" {
		a.answer(v, status, "start", "guide", g)
		return nil
	}
	return a.guidePage(v, status, g)
}

// guideFails shows a guide again with an error that the person can mend.
func (a *admin) guideFails(v *visit, action, typed string, err error) error {
	var m *mistake
	var field *notification.FieldError
	switch {
	case errors.As(err, &m):
		return a.acted(v, func(g *guide) { g.Failed, g.Typed, g.Problem = action, typed, m.in(v.lang) })
	case errors.As(err, &field):
		return a.acted(v, func(g *guide) { g.Failed, g.Typed, g.Problem = action, typed, fieldProblem(v.lang, field) })
	}
	return err
}

// changeOrigins adds a site to those whose visitors may register, or whose pages may connect, or takes one away.
func (a *admin) changeOrigins(v *visit) error {
	about, ok := goalNamed(v.r.PathValue("goal"))
	if !ok || about.Name != goalBrowsers && about.Name != goalLive {
		return mistaken(http.StatusNotFound, "There is no such guide.")
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	typed, away := text(v.r.PostForm, "origin"), text(v.r.PostForm, "remove")
	origin, err := originOf(typed)
	if away == "" && err != nil {
		return a.guideFails(v, "origin", typed, err)
	}
	for range 3 { // another person may change the app between the two calls
		var set access.App
		if set, err = a.Settings.App(v.person.App); err != nil {
			return err
		}
		list := set.AnonymousOrigins
		if about.Name == goalLive {
			list = set.Origins
		}
		list = slices.Clone(list)
		if away != "" {
			list = slices.DeleteFunc(list, func(o string) bool { return o == away })
		} else if !slices.Contains(list, origin) {
			list = append(list, origin)
		}
		tag := set.Tag()
		change := access.AppChange{Tag: &tag, AnonymousOrigins: &list}
		if about.Name == goalLive {
			change = access.AppChange{Tag: &tag, Origins: &list}
		}
		err = a.Settings.SetApp(v.r.Context(), v.person.App, change)
		var changed *access.TagError
		if !errors.As(err, &changed) {
			break
		}
	}
	if err != nil {
		return a.guideFails(v, "origin", typed, err)
	}
	v.made = origin
	return a.acted(v, func(*guide) {})
}

// originOf makes an origin of a site's name, or of the address of one of its pages.
func originOf(typed string) (string, error) {
	wrong := mistaken(http.StatusUnprocessableEntity, "Write the address of your site, like https://www.example.org.")
	if typed == "" || len(typed) > 300 {
		return "", wrong
	}
	full := typed
	if !strings.Contains(full, "://") {
		full = "https://" + full
		if onThisMachine("http://" + typed) {
			full = "http://" + typed
		}
	}
	u, err := url.Parse(full)
	if err != nil || u.Hostname() == "" || strings.ContainsAny(u.Host, "*\"'<> ") || u.Scheme != "https" && u.Scheme != "http" {
		return "", wrong
	}
	if u.Scheme == "http" && !onThisMachine(full) {
		return "", mistaken(http.StatusUnprocessableEntity, "Browsers allow pushes to https pages only, so the address must begin with https://.")
	}
	if !strings.Contains(u.Hostname(), ".") && !onThisMachine(full) {
		return "", wrong
	}
	return u.Scheme + "://" + webhost.Authority(u.Scheme, u.Host), nil
}

// connects holds the field and the channel that a guide asks credentials for, with settings that go along.
var connects = map[string]struct {
	channel push.Channel
	field   string
	along   channel.Values
}{
	goalBot:    {push.Telegram, "token", channel.Values{"updates": "true"}},
	goalPhones: {push.FCM, "service_account", nil},
}

// connectChannel stores a channel's credentials and tries them.
func (a *admin) connectChannel(v *visit) error {
	with, ok := connects[v.r.PathValue("goal")]
	if !ok {
		return mistaken(http.StatusNotFound, "There is no such guide.")
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	secret := text(v.r.PostForm, with.field)
	if secret == "" {
		return a.guideFails(v, "connect", "", mistaken(http.StatusUnprocessableEntity, "Paste it here first."))
	}
	on, ctx := true, v.r.Context()
	change := channel.Change{Enabled: &on, Values: channel.Values{with.field: secret}}
	for name, value := range with.along {
		change.Values[name] = value
	}
	if base := text(v.r.PostForm, "base_url"); base != "" {
		change.Values["base_url"] = base
	}
	if _, _, err := a.Channels.Set(ctx, v.person.App, with.channel, change); err != nil {
		return a.guideFails(v, "connect", "", err)
	}
	v.made = string(with.channel)
	about, err := a.Channels.Check(ctx, v.person.App, with.channel)
	return a.acted(v, func(g *guide) {
		g.About = about
		if err != nil {
			g.Failed, g.Problem = "connect", v.t("It is stored, but does not work yet: %s", sentence(err.Error()))
		}
	})
}

// guideToken makes a client's token for a try.
func (a *admin) guideToken(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	req := access.TokenRequest{Recipient: text(v.r.PostForm, "recipient"), TTL: 24 * time.Hour}
	token, expires, err := a.Keys.MintToken(v.person.App, req)
	if err != nil {
		return a.guideFails(v, "token", req.Recipient, err)
	}
	v.made = req.Recipient
	return a.acted(v, func(g *guide) { g.Token = &madeToken{Recipient: req.Recipient, Text: token, Expires: expires} })
}

// guideTest sends a test message to somebody whom the guide knows.
func (a *admin) guideTest(v *visit) error {
	g, err := a.guideInPath(v)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	to := text(v.r.PostForm, "to")
	var sent error
	if g.Name == goalLive {
		sent = a.publishTest(v, to)
	} else {
		var e audience.Endpoint
		if e, err = a.endpointOf(v, to); err != nil {
			return err
		}
		sent = a.sendTest(v, &e)
	}
	var m *mistake
	if errors.As(sent, &m) {
		return a.guideFails(v, "test", "", sent)
	}
	a.Log.InfoContext(v.r.Context(), "test sent on the web page", "app", v.person.App, "guide", g.Name, "ok", sent == nil, "by", v.person.Name())
	if sent == nil {
		if err := a.Settings.SetGuide(v.r.Context(), v.person.App, g.Name, access.GuideTested); err != nil {
			return err
		}
	}
	return a.acted(v, func(g *guide) {
		g.Sent = &channelTest{To: to, OK: sent == nil, Outcome: push.Outcome(sent)}
		if sent != nil {
			g.Sent.Detail = sentence(reasonIn(v.lang, sent.Error()))
		}
	})
}

// testMessage is the content of a test.
var testMessage = push.Content{Title: "It works", Body: "This is the first message from Godwit."}

// sendTest sends a test message to an endpoint.
func (a *admin) sendTest(v *visit, e *audience.Endpoint) error {
	ctx, app := v.r.Context(), v.person.App
	sender, err := a.Channels.Sender(ctx, app, e.Channel)
	if err != nil {
		return err
	}
	_, err = sender.Send(ctx, push.Request{
		ID: "test-" + rand.Text(), App: app, Recipient: e.Recipient, Address: e.Address, ExpiresAt: a.now().Add(10 * time.Minute), Content: testMessage,
	})
	return err
}

// publishTest publishes a test notification to a recipient.
func (a *admin) publishTest(v *visit, to string) error {
	d := notification.Draft{ID: "test-" + rand.Text(), To: []string{to}, TTL: 10 * time.Minute, Alone: true, Content: notification.Content{Title: testMessage.Title, Body: testMessage.Body}}
	if err := notification.CheckName("to", to); err != nil {
		return mistaken(http.StatusUnprocessableEntity, "There is no recipient of this name.")
	}
	r := a.Publisher.Publish(v.r.Context(), v.person.App, []*notification.Draft{&d})[0]
	if r.Err != nil {
		return r.Err
	}
	return r.Copies[0].Err
}

// putAway hides a guide, or with open shows it again.
func (a *admin) putAway(v *visit) error {
	name := v.r.PathValue("goal")
	if _, ok := goalNamed(name); !ok && name != goalAll {
		return mistaken(http.StatusNotFound, "There is no such guide.")
	}
	if err := a.Settings.SetGuide(v.r.Context(), v.person.App, name, access.GuideAway); err != nil {
		return err
	}
	if name == goalAll {
		a.leadTo(v, "/ui/", http.StatusOK)
		return nil
	}
	about, _ := goalNamed(name)
	a.leadTo(v, "/ui/channels/"+string(about.channels[0]), http.StatusOK)
	return nil
}

// giveWorker gives the service worker's file, which people put on their site.
func (a *admin) giveWorker(v *visit) error {
	g := guide{Server: a.server(v)}
	h := v.w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="godwit-sw.js"`)
	v.status = http.StatusOK
	_, err := fmt.Fprintln(v.w, g.worker())
	return err
}
