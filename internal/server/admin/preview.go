package admin

import (
	"maps"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
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
	File    string                // what else it carries: a video, and where it is
	Notes   []string              // how it arrives
	Buttons [][]push.TelegramLink // in rows
}

// bubbles renders a message for an unknown person, and for each of its languages.
func bubbles(s *campaign.Spec, ch push.Channel) []bubble {
	locales := append([]string{""}, slices.Sorted(maps.Keys(s.Says(ch).Locales))...)
	all := make([]bubble, len(locales))
	for i, tag := range locales {
		c := s.Render(campaign.Person{Locale: tag}, ch)
		b := bubble{Channel: ch, Locale: tag, Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, URL: c.URL}
		switch ch {
		case push.Telegram:
			b.telegram(&c.Telegram)
		case push.WebPush:
			for _, act := range c.WebPush.Actions {
				b.Buttons = append(b.Buttons, []push.TelegramLink{{Text: act.Title, URL: act.URL}})
			}
			b.note(c.WebPush.RequireInteraction, "stays until it is closed")
		}
		all[i] = b
	}
	return all
}

// telegram shows what Telegram alone does: a picture there is one of its own.
func (b *bubble) telegram(t *push.TelegramContent) {
	b.Icon, b.Image, b.Buttons = "", t.Photo, t.Buttons
	for _, m := range media[1:] {
		if at := *m.of(t); at != "" {
			b.File = m.name + " " + at
		}
	}
	b.note(t.ParseMode != "", "title and text are "+t.ParseMode)
	b.note(t.Silent, "no sound")
	b.note(t.NoPreview, "no preview of links")
}

func (b *bubble) note(holds bool, text string) {
	if holds {
		b.Notes = append(b.Notes, text)
	}
}

// preview is what is shown beside the form.
type preview struct {
	Troubles []trouble
	Counted  bool
	reached
	Previews []bubble
	Template string // that it is of
	Left     string // that it is no longer of
}

// previewCampaign shows a message as it stands in the form: beside it, or on the page anew where no script runs.
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
		f.check(a)
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
		p.Previews = append(p.Previews, bubbles(&shown, ch)...)
	}
	return p, nil
}

// previewChannels are the channels that a message is shown for.
func previewChannels(lists ...[]push.Channel) []push.Channel {
	for _, chs := range lists {
		if len(chs) > 0 {
			return chs
		}
	}
	return []push.Channel{push.WebPush}
}

// reached is how many addresses an audience reaches.
type reached struct {
	Count  int64
	Looked int64 // they were counted among so many, of more; 0: these are all
}

// reach counts whom an audience reaches, for as long as somebody waits for it.
func (a *admin) reach(v *visit, who *audience.Audience) (n reached, err error) {
	sel, err := who.Select("")
	if err != nil {
		return n, err
	}
	until := a.now().Add(lookFor)
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
