package admin

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// bubble is a message as its reader will see it.
type bubble struct {
	Channel push.Channel
	Locale  string
	Variant string // of a campaign with variants
	Title   string
	Body    string
	Icon    string
	Image   string
	URL     string
	File    string                // another medium of the message, and its location: a video
	Notes   []string              // how it arrives
	Buttons [][]push.TelegramLink // in rows
}

// bubbles renders a message, or both variants of it, for a recipient without known attributes, and for each of its languages.
func bubbles(l *words.Language, s *campaign.Spec, ch push.Channel) (all []bubble) {
	groups := []campaign.Group{campaign.Whole}
	if s.Tries() {
		groups = []campaign.Group{campaign.GroupA, campaign.GroupB}
	}
	for _, g := range groups {
		says := s.Of(g)
		for _, tag := range append([]string{""}, slices.Sorted(maps.Keys(says.Says(ch).Locales))...) {
			c := says.Render(campaign.Person{Locale: tag}, ch)
			b := bubbleOf(l, ch, tag, &c)
			b.Variant = g.Name()
			all = append(all, b)
		}
	}
	return all
}

// bubbleOf shows a message as a channel does.
func bubbleOf(l *words.Language, ch push.Channel, locale string, c *push.Content) bubble {
	b := bubble{Channel: ch, Locale: locale, Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, URL: c.URL}
	switch ch {
	case push.Telegram:
		b.telegram(l, &c.Telegram)
	case push.WebPush:
		for _, act := range c.WebPush.Actions {
			b.Buttons = append(b.Buttons, []push.TelegramLink{{Text: act.Title, URL: act.URL}})
		}
		b.note(c.WebPush.RequireInteraction, l.T("stays until it is closed"))
	}
	return b
}

// telegram adds the parts that only Telegram shows: it has a picture of its own.
func (b *bubble) telegram(l *words.Language, t *push.TelegramContent) {
	b.Icon, b.Image, b.Buttons = "", t.Photo, t.Buttons
	for _, m := range push.TelegramMediums[1:] { // the first is the picture
		if at := *m.Of(t); at != "" {
			b.File = l.T(m.Name) + " " + at
		}
	}
	if t.Sticker != "" {
		b.Title, b.Body, b.URL = "", "", ""
	}
	for i, row := range b.Buttons {
		for j, pressed := range row {
			if pressed.Callback != "" {
				b.Buttons[i][j].URL = l.T("reports %s", pressed.Callback)
			}
		}
	}
	b.note(len(t.Album) > 0, l.T("an album of %s", len(t.Album)))
	b.note(t.ParseMode != "", l.T("title and text are %s", t.ParseMode))
	b.note(t.Silent, l.T("no sound"))
	b.note(t.NoPreview, l.T("no preview of links"))
}

func (b *bubble) note(holds bool, text string) {
	if holds {
		b.Notes = append(b.Notes, text)
	}
}

// preview is the content beside the form.
type preview struct {
	Troubles []trouble
	Counted  bool
	reached
	Previews []bubble
	Template string // that it is of
	Left     string // the template whose message this no longer is
}

// previewCampaign shows a message as the form has it: beside the form, or on the whole page again if no script runs.
func (a *admin) previewCampaign(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	var was *campaign.View
	if id := v.r.PostForm.Get("id"); id != "" {
		var err error
		if was, err = a.Campaigns.Get(v.r.Context(), v.person.App, id); err != nil {
			return explain(err)
		}
	}
	f, err := a.readForm(v, was)
	if err != nil {
		return err
	}
	p, err := a.preview(v, f)
	if err != nil {
		return err
	}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "compose", "preview", p)
	}
	c := newCompose(f, was)
	c.Preview = *p
	return a.form(v, http.StatusOK, c)
}

func (a *admin) preview(v *visit, f *reading) (*preview, error) {
	p := &preview{Template: f.spec.Template, Left: f.Left}
	blank := f.spec.Content.Title == "" && f.spec.Content.Body == ""
	if blank && len(f.Problems) == 1 {
		delete(f.Problems, "title") // nothing has been written yet
	}
	if !f.correct {
		n, err := a.reach(v, &f.spec.Audience)
		if p.reached, p.Counted = n, err == nil; err != nil {
			if _, ok := f.refused(err); !ok {
				return nil, err
			}
		}
	}
	if !blank {
		f.check(a, false)
	}
	if p.Troubles = f.troubles(); blank || len(p.Troubles) > 0 {
		return p, nil
	}
	missing, err := a.missing(v, f)
	if err != nil {
		return nil, err
	}
	shown := f.spec
	shown.Variables = withGaps(shown.Variables, missing)
	for _, ch := range previewChannels(f.spec.Audience.Channels) {
		p.Previews = append(p.Previews, bubbles(v.lang, &shown, ch)...)
	}
	return p, nil
}

// previewChannels returns the channels for which a message is shown.
func previewChannels(lists ...[]push.Channel) []push.Channel {
	for _, chs := range lists {
		if len(chs) > 0 {
			return chs
		}
	}
	return []push.Channel{push.WebPush}
}

// reached is the number of addresses in an audience.
type reached struct {
	Count  int64
	Looked int64 // number of endpoints examined so far, if there are more; 0: all were
}

// reach counts the addresses in an audience, for at most lookFor.
func (a *admin) reach(v *visit, who *audience.Audience) (n reached, err error) {
	return a.reachUntil(v, who, a.now().Add(lookFor))
}

// selection validates an audience and looks its segment up.
func (a *admin) selection(v *visit, who audience.Audience) (*audience.Selection, error) {
	if _, err := a.Segments.Fill(v.r.Context(), v.person.App, &who, ""); err != nil {
		return nil, err
	}
	return who.Select("")
}

// reachUntil counts the addresses in an audience; at the latest soon after until it stops.
func (a *admin) reachUntil(v *visit, who *audience.Audience, until time.Time) (n reached, err error) {
	sel, err := a.selection(v, *who)
	if err != nil {
		return n, err
	}
	for after := int64(0); ; {
		part, err := a.Audience.CountPart(v.r.Context(), v.person.App, sel, after)
		if err != nil {
			return n, err
		}
		n.Count += part.Count
		if after = part.Next; after == 0 {
			n.Looked = 0
			return n, nil
		}
		if n.Looked += part.Looked; a.now().After(until) {
			return n, nil
		}
	}
}
