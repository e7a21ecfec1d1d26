package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// Channels reads, changes and tests the settings of an app's channels.
type Channels interface {
	List(app string) []channel.Info
	Get(app string, ch push.Channel) (channel.Info, error)
	Fields(ch push.Channel) ([]channel.Field, error)
	Set(ctx context.Context, app string, ch push.Channel, change channel.Change) (channel.Info, channel.Values, error)
	Check(ctx context.Context, app string, ch push.Channel) (about string, err error)
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
	// Upload checks a file and returns the function that gives it to the channel's provider and returns its id.
	Upload(ctx context.Context, app string, ch push.Channel, address json.RawMessage, f *push.File) (give func(context.Context) (string, error), err error)
}

// channelLine is a channel in the list.
type channelLine struct {
	channel.Info
	Ready, Sends     bool
	Active, Disabled int64 // endpoints
}

func (a *admin) listChannels(v *visit) error {
	ctx, app := v.r.Context(), v.person.App
	active, disabled, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	var all []channelLine
	for _, info := range a.Channels.List(app) {
		all = append(all, channelLine{info, a.ready(v, info.Channel, active[info.Channel]), a.Ready(ctx, app, info.Channel), active[info.Channel], disabled[info.Channel]})
	}
	return a.show(v, "channels", v.t("Channels"), "channels", all)
}

// channelPage is one channel with the form of its settings.
type channelPage struct {
	channel.Info
	Ready    bool
	Sends    bool   // it can send, though nobody may be able to come to it
	Guide    *guide // nil: the page shows none
	Steps    string // path of the guide that the page does not show; empty: there is none
	Problem  string // with the whole
	Lines    []settingLine
	Docs     string // page of the documentation
	Call     string // of the API, which does what the form does
	Secret   bool   // a field is one
	Facts    []fact // what the channel shows in addition to its settings: a public key
	Made     []fact // generated secrets, shown only this once
	Saved    bool
	Tested   *channelTest
	Settable bool   // it has settings
	Revision string // of the settings that the form shows
}

// channelTest is the result of a test.
type channelTest struct {
	To      string
	OK      bool
	Outcome string
	Detail  string
}

// channelInPath finds the channel that the path names.
func (a *admin) channelInPath(v *visit) (*channelPage, []channel.Field, error) {
	ch := push.Channel(v.r.PathValue("name"))
	info, err := a.Channels.Get(v.person.App, ch)
	if errors.Is(err, channel.ErrUnknown) {
		return nil, nil, mistaken(http.StatusNotFound, "There is no such channel.")
	}
	if err != nil {
		return nil, nil, err
	}
	fields, err := a.Channels.Fields(ch)
	return &channelPage{Info: info, Docs: "/docs/guides/channels", Settable: len(fields) > 0, Revision: setting.RevisionAt(info.UpdatedAt)}, fields, err
}

func (a *admin) showChannel(v *visit) error {
	p, fields, err := a.channelInPath(v)
	if err != nil {
		return err
	}
	return a.channel(v, http.StatusOK, p, fields, nil, nil)
}

// channel shows the page. Refused input stays as typed; secrets are never shown.
func (a *admin) channel(v *visit, status int, p *channelPage, fields []channel.Field, typed url.Values, problems map[string]string) error {
	ctx, app := v.r.Context(), v.person.App
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	p.Sends, p.Ready = a.Ready(ctx, app, p.Channel), a.ready(v, p.Channel, active[p.Channel])
	if p.Guide, err = a.channelGuide(v, p.Channel, p.Ready); err != nil {
		return err
	}
	if g := goalOf(p.Channel); g != nil && p.Guide == nil {
		p.Steps = "/ui/start/" + g.Name
	}
	p.fill(v.lang, fields, typed, problems)
	for _, name := range slices.Sorted(maps.Keys(p.Settings)) {
		if !slices.ContainsFunc(fields, func(f channel.Field) bool { return f.Name == name }) {
			p.Facts = append(p.Facts, fact{Name: v.t(fieldWord(name)), Value: fmt.Sprint(p.Settings[name])})
		}
	}
	a.answer(v, status, "channel", "page", frame{Title: v.t(channelWord(p.Channel)), Here: "channels", Person: v.person, Version: a.Version, Content: p})
	return nil
}

// setChannel stores the posted settings of a channel. Secrets whose field is empty stay unchanged.
func (a *admin) setChannel(v *visit) error {
	p, fields, err := a.channelInPath(v)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	f := v.r.PostForm
	var change channel.Change
	switch f.Get("then") {
	case "on", "off":
		on := f.Get("then") == "on"
		change.Enabled = &on
	default:
		var problems map[string]string
		if change, problems = readChannel(v.lang, fields, f); len(problems) > 0 {
			return a.channel(v, http.StatusUnprocessableEntity, p, fields, f, problems)
		}
	}
	info, made, err := a.Channels.Set(v.r.Context(), v.person.App, p.Channel, change)
	if err != nil {
		refused, err := refusedBy(v.lang, &channelResource, channelInputs(fields), f, false, err)
		if err != nil {
			return err
		}
		p.Problem = refused.whole
		return a.channel(v, refused.status, p, fields, f, refused.problems)
	}
	a.Log.InfoContext(v.r.Context(), "channel set on the web page", "app", v.person.App, "channel", p.Channel, "by", v.person.Name())
	p.Info, p.Saved, p.Revision = info, true, setting.RevisionAt(info.UpdatedAt)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		p.Made = append(p.Made, fact{Name: v.t(fieldWord(name)), Value: made[name]})
	}
	return a.channel(v, http.StatusOK, p, fields, nil, nil)
}

// testChannel tries a channel's credentials, or sends a message to a recipient's first active address on it.
func (a *admin) testChannel(v *visit) error {
	p, fields, err := a.channelInPath(v)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	to := text(v.r.PostForm, "to")
	about, err := a.tryChannel(v, p.Channel, to)
	var m *mistake
	if errors.As(err, &m) {
		err = errors.New(strings.TrimSuffix(m.in(v.lang), "."))
	}
	p.Tested = &channelTest{To: to, OK: err == nil, Outcome: push.Outcome(err), Detail: about}
	if err != nil {
		p.Tested.Detail = err.Error()
	}
	a.Log.InfoContext(v.r.Context(), "channel tested on the web page", "app", v.person.App, "channel", p.Channel, "ok", err == nil, "by", v.person.Name())
	return a.channel(v, http.StatusOK, p, fields, nil, nil)
}

func (a *admin) tryChannel(v *visit, ch push.Channel, to string) (about string, err error) {
	ctx, app := v.r.Context(), v.person.App
	if to == "" {
		return a.Channels.Check(ctx, app, ch)
	}
	if err := notification.CheckName("to", to); err != nil {
		return "", mistaken(http.StatusUnprocessableEntity, "There is no recipient of this name.")
	}
	r := push.Request{ID: "test-" + rand.Text(), App: app, Recipient: to, ExpiresAt: a.now().Add(10 * time.Minute), Content: push.Content{Title: "Test", Body: "It works."}}
	if ch != push.Live {
		list, err := a.Audience.Of(ctx, app, to)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(list, func(e audience.Endpoint) bool { return e.Channel == ch && e.Status == audience.Active })
		if i < 0 {
			return "", mistaken(http.StatusUnprocessableEntity, "%s has no active address on this channel.", clip(to, 80))
		}
		r.Address = list[i].Address
	}
	sender, err := a.Channels.Sender(ctx, app, ch)
	if err != nil {
		return "", err
	}
	receipt, err := sender.Send(ctx, r)
	return receipt.ExternalID, err
}
