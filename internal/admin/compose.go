package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
		all[i] = b
	}
	return all
}

// compose is the form of a new campaign.
type compose struct {
	Key      string // makes posting the form twice create one campaign
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
	ctx, app := v.r.Context(), v.person.App
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	tags, _, err := a.names(ctx, app)
	if err != nil {
		return err
	}
	form := compose{Key: rand.Text(), Tags: tags}
	for _, ch := range campaign.Channels() {
		ready := a.Ready(ctx, app, ch)
		form.Channels = append(form.Channels, channelChoice{Name: ch, Active: active[ch], Ready: ready, Chosen: ready && active[ch] > 0})
	}
	return a.show(v, "compose", "New campaign", "campaigns", form)
}

func (a *admin) createCampaign(v *visit) error {
	spec, sendAt, err := readForm(v.r)
	if err != nil {
		return err
	}
	ctx, app := v.r.Context(), v.person.App
	start := v.r.PostFormValue("then") == "start"
	if !start && !sendAt.IsZero() {
		return &mistake{http.StatusUnprocessableEntity, "A campaign with a time is sent at that time. Save and start it, or leave the time empty for a draft."}
	}
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
	to := "/ui/campaigns/" + c.ID
	if v.r.Header.Get("HX-Request") != "" {
		v.w.Header().Set("HX-Redirect", to)
		v.w.WriteHeader(http.StatusCreated)
		return nil
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
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
	spec, sendAt, err := readForm(v.r)
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

// readForm reads a posted campaign. What the form cannot say the API can.
func readForm(r *http.Request) (spec campaign.Spec, sendAt time.Time, err error) {
	if err := r.ParseForm(); err != nil {
		return spec, sendAt, &mistake{http.StatusBadRequest, "The form could not be read."}
	}
	f := r.PostForm
	c := &spec.Content
	c.Title, c.Body, c.URL, c.Icon, c.Image = text(f, "title"), text(f, "body"), text(f, "url"), text(f, "icon"), text(f, "image")
	c.Telegram.Silent, c.WebPush.RequireInteraction = f.Has("silent"), f.Has("require_interaction")
	c.Telegram.Photo = c.Image
	track := f.Has("track")
	spec.Name, spec.UTM, spec.Track = text(f, "name"), text(f, "utm"), &track
	spec.Audience = audience.Audience{TagsAny: words(f, "tags_any"), TagsAll: words(f, "tags_all"), Where: text(f, "where")}
	for _, ch := range f["channel"] {
		spec.Audience.Channels = append(spec.Audience.Channels, push.Channel(ch))
	}
	if s := text(f, "rate"); s != "" {
		if spec.Rate, err = campaign.ParseRate(s); err != nil {
			return spec, sendAt, &mistake{http.StatusUnprocessableEntity, "At most: " + err.Error() + "."}
		}
	}
	if from, to := text(f, "quiet_from"), text(f, "quiet_to"); from != "" || to != "" {
		spec.Quiet = &campaign.QuietHours{From: from, To: to, Timezone: "recipient"}
	}
	if s := text(f, "send_at"); s != "" {
		if sendAt, err = time.Parse("2006-01-02T15:04", s); err != nil {
			return spec, sendAt, &mistake{http.StatusUnprocessableEntity, "Not before: " + s + " is not a date and a time."}
		}
	}
	return spec, sendAt, nil
}

func text(f url.Values, name string) string { return strings.TrimSpace(f.Get(name)) }

// words reads a list with commas.
func words(f url.Values, name string) (list []string) {
	for w := range strings.SplitSeq(f.Get(name), ",") {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list
}
