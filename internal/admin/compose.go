package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
)

// bubble is a message as it will be seen.
type bubble struct {
	Channel push.Channel
	Locale  string
	Title   string
	Body    string
	Icon    string
	Image   string
	URL     string
	Buttons []string
}

// bubbles renders a message for somebody of whom nothing is known, and for each language it has.
func bubbles(s *campaign.Spec, ch push.Channel) []bubble {
	locales := []string{""}
	for tag := range s.Content.Locales {
		locales = append(locales, tag)
	}
	slices.Sort(locales)
	all := make([]bubble, len(locales))
	for i, tag := range locales {
		c := s.Render(campaign.Person{Locale: tag}, ch)
		b := bubble{Channel: ch, Locale: tag, Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, URL: c.URL}
		if ch == push.Telegram {
			b.Icon = ""
			if b.Image = c.Telegram.Photo; b.Image == "" {
				b.Image = c.Image
			}
		}
		for _, act := range c.WebPush.Actions {
			b.Buttons = append(b.Buttons, act.Title)
		}
		if ch == push.Telegram {
			b.Buttons = nil
			for _, row := range c.Telegram.Buttons {
				for _, link := range row {
					b.Buttons = append(b.Buttons, link.Text)
				}
			}
		}
		all[i] = b
	}
	return all
}

// compose is the form of a campaign.
type compose struct {
	ID       string // of one that is changed; empty: a new one
	Was      string // its name
	Key      string // makes posting the form twice create one campaign
	Fields   fields
	Channels []channelChoice
	Tags     []string
	Preview  preview
}

type channelChoice struct {
	Name   push.Channel
	Active int64
	Ready  bool
	Chosen bool
}

// preview is what is shown beside the form.
type preview struct {
	Problem  string
	Counted  bool
	Count    int64
	Previews []bubble
}

func (a *admin) composeCampaign(v *visit) error {
	return a.form(v, &compose{Key: rand.Text(), Fields: fields{Track: true}}, nil)
}

func (a *admin) editCampaign(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	if c.State != campaign.Draft && c.State != campaign.Scheduled {
		return explain(&campaign.StateError{Action: "be revised", State: c.State, Hint: "it has begun"})
	}
	return a.form(v, &compose{ID: c.ID, Was: named(c), Fields: newFields(&c.Spec, c.SendAt)}, c.Spec.Audience.Channels)
}

// form shows the form of a campaign. Of a new one those channels are chosen that reach somebody.
func (a *admin) form(v *visit, form *compose, chosen []push.Channel) error {
	ctx, app := v.r.Context(), v.person.App
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	tags, _, err := a.names(ctx, app)
	if err != nil {
		return err
	}
	form.Tags = tags
	for _, ch := range campaign.Channels() {
		choice := channelChoice{Name: ch, Active: active[ch], Ready: a.Ready(ctx, app, ch)}
		if choice.Chosen = slices.Contains(chosen, ch); form.ID == "" {
			choice.Chosen = choice.Ready && active[ch] > 0
		}
		form.Channels = append(form.Channels, choice)
	}
	title := "New campaign"
	if form.ID != "" {
		title = "Change " + form.Was
	}
	return a.show(v, "compose", title, "campaigns", form)
}

func (a *admin) reviseCampaign(v *visit) error {
	was, err := a.campaign(v)
	if err != nil {
		return err
	}
	spec, sendAt, start, err := readSaved(v.r, was.Spec)
	if err != nil {
		return err
	}
	ctx, app := v.r.Context(), v.person.App
	c, err := a.Campaigns.Revise(ctx, app, was.ID, spec, sendAt)
	if err == nil && start && sendAt.IsZero() {
		c, err = a.Campaigns.Start(ctx, app, c.ID, time.Time{})
	}
	if err != nil {
		return explain(err)
	}
	a.Log.InfoContext(ctx, "campaign revised on the web page", "app", app, "campaign", c.ID, "state", string(c.State), "key", v.person.Key)
	a.leadTo(v, "/ui/campaigns/"+c.ID, http.StatusOK)
	return nil
}

// readSaved reads the form of a campaign that is to be saved, and whether it is to be started as well.
func readSaved(r *http.Request, was campaign.Spec) (spec campaign.Spec, sendAt time.Time, start bool, err error) {
	spec, sendAt, err = readForm(r, was)
	start = r.PostFormValue("then") == "start"
	if err == nil && !start && !sendAt.IsZero() {
		err = &mistake{http.StatusUnprocessableEntity, "A campaign with a time is sent at that time. Save and start it, or leave the time empty for a draft."}
	}
	return spec, sendAt, start, err
}

func (a *admin) createCampaign(v *visit) error {
	spec, sendAt, start, err := readSaved(v.r, campaign.Spec{})
	if err != nil {
		return err
	}
	ctx, app := v.r.Context(), v.person.App
	key := v.r.PostFormValue("key")
	c, err := a.Campaigns.Create(ctx, app, spec, sendAt, key, sha256.Sum256([]byte(v.r.PostForm.Encode())))
	if errors.Is(err, campaign.ErrReused) {
		return &mistake{http.StatusConflict, "This form was saved before and has changed since. Open a new one."}
	}
	if err == nil && start && sendAt.IsZero() {
		c, err = a.Campaigns.Start(ctx, app, c.ID, time.Time{})
	}
	if err != nil {
		return explain(err)
	}
	a.Log.InfoContext(ctx, "campaign made on the web page", "app", app, "campaign", c.ID, "state", string(c.State), "key", v.person.Key)
	a.leadTo(v, "/ui/campaigns/"+c.ID, http.StatusCreated)
	return nil
}

func (a *admin) previewCampaign(v *visit) error {
	p, err := a.preview(v)
	var m *mistake
	if errors.As(err, &m) {
		p.Problem = m.text
	} else if err != nil {
		return err
	}
	return a.part(v, "compose", "preview", p)
}

func (a *admin) preview(v *visit) (p preview, err error) {
	var was campaign.Spec
	if id := v.r.PostFormValue("id"); id != "" {
		c, err := a.Campaigns.Get(v.r.Context(), v.person.App, id)
		if err != nil {
			return p, explain(err)
		}
		was = c.Spec
	}
	spec, sendAt, err := readForm(v.r, was)
	if err != nil {
		return p, err
	}
	if p.Count, err = a.reach(v, &spec.Audience); err != nil {
		return p, explain(err)
	}
	p.Counted = true
	if spec.Content.Title == "" && spec.Content.Body == "" {
		return p, nil
	}
	if err := spec.Check(a.now(), sendAt); err != nil {
		return p, explain(err)
	}
	for _, ch := range previewChannels(spec.Audience.Channels) {
		p.Previews = append(p.Previews, bubbles(&spec, ch)...)
	}
	return p, nil
}

func (a *admin) reach(v *visit, who *audience.Audience) (n int64, err error) {
	sel, err := who.Select("")
	if err != nil {
		return 0, err
	}
	counts, err := a.Audience.Count(v.r.Context(), v.person.App, sel)
	for _, c := range counts {
		n += c
	}
	return n, err
}
