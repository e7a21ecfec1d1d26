package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/push"
)

// compose is the page with the form of a campaign.
type compose struct {
	Form     *form
	ID       string // id of the campaign that is changed; empty: a new one
	Was      string // its name
	Correct  bool   // the form corrects messages that were already sent
	Alone    bool   // the form has a message without anything about its sending
	At       string // path to which the form is posted; empty: a campaign's
	Key      string // makes posting the form twice create one campaign
	Seen     string // the mark of the campaign that is changed, as the person has read it
	Channels []channelChoice
	Mediums  []push.TelegramMedium // files that can be uploaded for Telegram; nil: none, as it is not set up or has the message already
	Tags     []string
	Template *line // nil: the app has no templates, and the campaign uses none
	Segment  *line // the same
	Second   *line // the choice of a template for the second variant, as Template
	Preview  preview
	Ask      *confirmation // nil: nothing is asked
}

type channelChoice struct {
	Name   push.Channel
	Active int64
	Ready  bool
	Chosen bool
}

func newCompose(f *reading, was *campaign.View) *compose {
	c := &compose{Form: &f.form, Key: f.text("key")}
	if was != nil {
		c.ID, c.Was, c.Correct, c.Alone, c.Seen = was.ID, named(was), f.correct, f.correct, f.text("seen")
	}
	return c
}

// saveAt returns the path to which the form is posted.
func (c *compose) saveAt() string {
	switch {
	case c.At != "":
		return c.At
	case c.Correct:
		return "/ui/campaigns/" + c.ID + "/correct"
	case c.ID != "":
		return "/ui/campaigns/" + c.ID
	}
	return "/ui/campaigns"
}

// composeCampaign shows an empty form, in which the channels that reach somebody are chosen.
func (a *admin) composeCampaign(v *visit) error {
	ctx, app := v.r.Context(), v.person.App
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	values := url.Values{"track": {"on"}}
	if done, err := a.composeFor(v, values); err != nil || done {
		return err
	}
	for _, ch := range push.Channels() {
		if active[ch] > 0 && a.Ready(ctx, app, ch) {
			values.Add("channel", string(ch))
		}
	}
	f := &form{Values: values, lang: v.lang}
	if name := text(v.r.URL.Query(), "segment"); name != "" {
		one, err := a.segmentOf(v, name)
		if err != nil {
			return err
		}
		values.Set("segment", one.Name)
	}
	if name := text(v.r.URL.Query(), "template"); name != "" {
		t, err := a.templateOf(v, name)
		if err != nil {
			return err
		}
		f.fill(t)
	}
	return a.form(v, http.StatusOK, &compose{Form: f, Key: rand.Text()})
}

// composeFor begins a campaign for one endpoint or one recipient, if the URL names one, and reports whether it has written the answer.
func (a *admin) composeFor(v *visit, values url.Values) (done bool, err error) {
	q := v.r.URL.Query()
	var to []audience.Endpoint
	switch id, name := text(q, "endpoint"), text(q, "recipient"); {
	case id != "":
		e, err := a.endpointOf(v, id)
		if err != nil {
			return false, err
		}
		to = []audience.Endpoint{e}
		values.Set("endpoints", e.ID.String())
	case name != "":
		if to, err = a.Audience.Of(v.r.Context(), v.person.App, name); err != nil {
			return false, err
		}
		values.Set("recipients", name)
	default:
		return false, nil
	}
	for i := range to {
		if ch := string(to[i].Channel); !slices.Contains(values["channel"], ch) {
			values.Add("channel", ch)
		}
	}
	return true, a.form(v, http.StatusOK, &compose{Form: &form{Values: values, lang: v.lang}, Key: rand.Text()})
}

func (a *admin) editCampaign(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	if c.State != campaign.Draft && c.State != campaign.Scheduled {
		return explain(&campaign.StateError{Action: "be revised", State: c.State, Hint: "it has begun"})
	}
	f := readingOf(v, c)
	if v.r.URL.Query().Has("check") {
		f.check(a, false)
	} else {
		f.Problems = nil
	}
	f.Kept = kept(v.lang, &c.Spec)
	return a.form(v, http.StatusOK, &compose{Form: &f.form, ID: c.ID, Was: named(c), Seen: c.Revision()})
}

// form shows the form of a campaign, as a whole page or as the part that htmx replaces.
func (a *admin) form(v *visit, status int, c *compose) error {
	v.again = true
	ctx, app := v.r.Context(), v.person.App
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	if c.Tags, _, err = a.names(ctx, app); err != nil {
		return err
	}
	if c.Template, err = a.templateChoice(ctx, app, c.Form); err != nil {
		return err
	}
	if c.Segment, err = a.segmentChoice(ctx, app, c.Form); err != nil {
		return err
	}
	if c.Second, err = a.secondChoice(c.Form, c.Template); err != nil {
		return err
	}
	for _, ch := range push.Channels() {
		c.Channels = append(c.Channels, channelChoice{
			Name: ch, Active: active[ch], Ready: a.Ready(ctx, app, ch), Chosen: slices.Contains(c.Form.Values["channel"], string(ch)),
		})
	}
	if !c.Correct && a.Ready(ctx, app, push.Telegram) {
		c.Mediums = push.TelegramMediums
	}
	if v.r.Header.Get("HX-Request") != "" {
		a.answer(v, status, "compose", "content", c)
		return nil
	}
	title := v.t("New campaign")
	switch {
	case c.Correct:
		title = v.t("Correct %s", c.Was)
	case c.ID != "":
		title = v.t("Change %s", c.Was)
	}
	if len(c.Form.Problems) > 0 {
		title = v.t("Not saved: %s", title)
	}
	a.answer(v, status, "compose", "page", frame{Title: title, Here: "campaigns", Person: v.person, Version: a.Version, Content: c})
	return nil
}

func (a *admin) createCampaign(v *visit) error { return a.save(v, nil) }

func (a *admin) reviseCampaign(v *visit) error {
	was, err := a.campaign(v)
	if err != nil {
		return err
	}
	return a.save(v, was)
}

// save stores a posted campaign and starts it if the form asks for that. If the input is wrong, it shows the form again as typed, with its
// mistakes; if it is right and is to be sent, with the question whether to send it.
func (a *admin) save(v *visit, was *campaign.View) error {
	f, err := a.readForm(v, was)
	if err != nil {
		return err
	}
	then := f.text("then")
	switch {
	case f.more, then == "back":
		f.Problems = nil
		return a.form(v, http.StatusOK, newCompose(f, was))
	case then == "template":
		return a.useTemplate(v, f, was)
	}
	start := then == "start" || then == "ask"
	draft := !start && !f.correct
	if draft && f.spec.Unwritten() {
		delete(f.Problems, "title") // it may be written later
	}
	f.check(a, draft)
	missing, err := a.missing(v, f)
	if err != nil {
		return err
	}
	for _, name := range missing {
		f.blame(variableField(name), "is missing: the message says {{%s}}, and nobody has an attribute of that name", name)
	}
	if len(f.Problems) > 0 {
		return a.form(v, http.StatusUnprocessableEntity, newCompose(f, was))
	}
	if before := f.text("asked"); then == "ask" || start && before != "" && before != f.asked() {
		return a.ask(v, f, was)
	}
	c, err := a.keep(v, f, was, draft)
	if errors.Is(err, campaign.ErrReused) {
		f.blame("", "this form was saved before and has changed since. Saving it again makes another campaign")
		again := newCompose(f, nil)
		again.Key = rand.Text()
		return a.form(v, http.StatusConflict, again)
	}
	if _, changed := errors.AsType[*setting.ChangedError](err); changed {
		return a.changedMeanwhile(v, f, was.ID)
	}
	if err == nil && start && f.sendAt.IsZero() && (!c.Duplicate || c.State == campaign.Draft) { // the first press of the button may have started it
		kept := c
		if c, err = a.Campaigns.Start(v.r.Context(), v.person.App, kept.ID, time.Time{}); err != nil && was == nil {
			was = kept // the campaign is a draft now: saving the form again changes it
			f.Values.Set("seen", kept.Revision())
			f.blame("", "it is saved as a draft, but was not started")
			v.w.Header().Set("HX-Push-Url", "/ui/campaigns/"+kept.ID+"/edit")
		}
	}
	if err != nil {
		status, ok := f.refused(err)
		if !ok {
			return explain(err)
		}
		return a.form(v, status, newCompose(f, was))
	}
	v.made = c.ID
	a.leadTo(v, "/ui/campaigns/"+c.ID, http.StatusOK)
	return nil
}

// changedMeanwhile shows the form again after somebody else has changed the campaign. Saving it once more replaces what they stored.
func (a *admin) changedMeanwhile(v *visit, f *reading, id string) error {
	now, err := a.Campaigns.Get(v.r.Context(), v.person.App, id)
	if err != nil {
		return explain(err)
	}
	f.Values.Set("seen", now.Revision())
	f.blame("", "somebody else has changed this campaign since you opened this page. What you typed is still here: saving again replaces theirs")
	return a.form(v, http.StatusConflict, newCompose(f, now))
}

// seen is the revision that the person has read; a form that names none takes any.
func (f *reading) seen() setting.Match {
	if seen := f.text("seen"); seen != "" {
		return setting.Exactly(seen)
	}
	return setting.Match{}
}

// keep stores a posted campaign: as a new one, or as a change or correction of was. A draft may be unfinished.
func (a *admin) keep(v *visit, f *reading, was *campaign.View, draft bool) (c *campaign.View, err error) {
	ctx, app := v.r.Context(), v.person.App
	if f.correct {
		return a.correct(v, f, was)
	}
	body := sha256.Sum256([]byte(v.r.PostForm.Encode()))
	switch {
	case draft && was != nil:
		c, err = a.Campaigns.Keep(ctx, app, was.ID, f.spec, f.sendAt, f.seen(), "", body)
	case draft:
		c, err = a.Campaigns.Keep(ctx, app, "", f.spec, f.sendAt, setting.Match{}, f.text("key"), body)
	case was != nil:
		c, err = a.Campaigns.Revise(ctx, app, was.ID, f.spec, f.sendAt, f.seen())
	default:
		c, err = a.Campaigns.Create(ctx, app, f.spec, f.sendAt, f.text("key"), body)
	}
	if err == nil {
		a.Log.InfoContext(ctx, "campaign saved on the web page", "app", app, "campaign", c.ID, "state", string(c.State), "new", was == nil, "by", v.person.Name())
	}
	return c, err
}
