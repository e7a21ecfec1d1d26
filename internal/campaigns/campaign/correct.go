package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// correctable is the only channel whose messages can be corrected. Browsers and phones keep showing the original message.
const correctable = push.Telegram

// Correction is the new text of a campaign's messages, which replaces the original text. The campaign stores the last correction beside its
// content.
type Correction struct {
	Template         string             `json:"template,omitempty"`
	TemplateRevision int64              `json:"template_revision,omitempty"`
	Variables        template.Variables `json:"variables,omitempty"` // nil in a request: use the campaign's own
	Content          Content            `json:"content"`

	At       time.Time `json:"at"`
	Messages int64     `json:"messages"` // that it goes over
	Kept     int64     `json:"kept"`     // messages of channels that do not support corrections
}

// same reports whether two corrections result in the same content.
func (k *Correction) same(other *Correction) bool {
	says := func(k *Correction) []byte {
		b, _ := json.Marshal(Correction{Template: k.Template, Variables: k.Variables, Content: k.Content}) // was checked
		return b
	}
	return other != nil && bytes.Equal(says(k), says(other))
}

// Correct changes the sent messages of an ended campaign, on channels that support it. Another correction may follow. If the same
// correction is under way, the call changes nothing.
func (s *Service) Correct(ctx context.Context, app, id string, k Correction) (*View, error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if err := s.checkCorrection(ctx, c, &k); err != nil {
		return nil, err
	}
	if err := c.mayBeCorrected(&k); err != nil {
		return nil, err
	}
	f, err := s.store.Figures(ctx, c.Num)
	if err != nil {
		return nil, err
	}
	sent := f.Channels[correctable]
	k.At, k.Messages = now, sent[Accepted]+sent[Unknown]
	k.Kept = f.Counts[Accepted] + f.Counts[Unknown] - k.Messages
	switch {
	case f.Open() > 0:
		return nil, &StateError{Action: "be corrected", State: c.State, Hint: "it is still being wound up; try again in a moment"}
	case k.Messages == 0:
		return nil, &StateError{Action: "be corrected", State: c.State, Hint: "nothing of it was sent over " + string(correctable) + ", and what was sent elsewhere stays as it is"}
	}
	if _, err := s.dispatch.Sender(ctx, app, correctable); err != nil {
		return nil, &ChannelError{Channel: correctable, Err: err}
	}
	s.dispatch.Unblock(app) // assume that the person who requests it has checked the channel
	return s.change(ctx, app, id, func(c *Campaign) error {
		if err := c.mayBeCorrected(&k); err != nil || c.State == Correcting {
			return err
		}
		c.RecallFrom, c.State, c.Recall, c.Spec.Correction = c.State, Correcting, 0, &k
		return nil
	})
}

// mayBeCorrected returns the reason why a campaign in its state cannot be corrected; nil: it can.
func (c *Campaign) mayBeCorrected(k *Correction) error {
	hint := ""
	switch c.State {
	case Completed, Cancelled, Failed:
		return nil
	case Correcting:
		if k.same(c.Spec.Correction) {
			return nil
		}
		hint = "another correction is under way; try again when it is done"
	case Draft, Scheduled:
		hint = "nothing was sent; change it"
	case Running, Paused:
		hint = "cancel it first, or wait for its end"
	case Recalling, RecallDone:
		hint = "what was taken back cannot be corrected"
	}
	return &StateError{Action: "be corrected", State: c.State, Hint: hint}
}

// checkCorrection completes a correction, and rejects content that could not have been sent.
func (s *Service) checkCorrection(ctx context.Context, c *Campaign, k *Correction) error {
	spec := Spec{Template: k.Template, TemplateRevision: k.TemplateRevision, Variables: k.Variables, Content: k.Content}
	if spec.Variables == nil {
		spec.Variables = c.Spec.Variables
	}
	if err := s.compose(ctx, c.App, &spec); err != nil {
		return err
	}
	if err := spec.Content.Check("content"); err != nil {
		return err
	}
	if err := spec.Variables.Check("variables"); err != nil {
		return err
	}
	if c.Spec.Tries() { // each variant's messages keep their own media
		now := spec.Content.Telegram
		if err := checkMediaStays(&now, &c.Spec.Variants[1].Content.Telegram); err != nil {
			return err
		}
		now = spec.Content.Telegram
		if err := checkMediaStays(&now, &c.Spec.Content.Telegram); err != nil {
			return err
		}
	} else if err := checkMediaStays(&spec.Content.Telegram, &c.Spec.Content.Telegram); err != nil {
		return err
	}
	k.Template, k.TemplateRevision, k.Variables, k.Content = spec.Template, spec.TemplateRevision, spec.Variables, spec.Content
	return nil
}

// withMediaOf copies the media of another message into t.
func withMediaOf(t, other *push.TelegramContent) {
	for _, m := range push.TelegramMediums {
		*m.Of(t) = *m.Of(other)
	}
	t.Album = other.Album
}

// checkMediaStays returns an error if the correction has other media than the original message. A correction without media keeps the
// original's.
func checkMediaStays(now, was *push.TelegramContent) error {
	if was.Sticker != "" {
		return notification.BadField("content.telegram.sticker", "a sticker has no text that could be corrected")
	}
	for _, m := range push.TelegramMediums {
		switch is, had := *m.Of(now), *m.Of(was); {
		case is == "" || is == had:
		case had == "":
			return notification.BadField("content.telegram."+m.Name, "a message that was sent cannot get a %s", m.Name)
		default:
			return notification.BadField("content.telegram."+m.Name, "the %s of a message that was sent stays: leave it out, or give the same", m.Name)
		}
	}
	if len(now.Album) > 0 && !slices.Equal(now.Album, was.Album) {
		return notification.BadField("content.telegram.album", "the album of a message that was sent stays: leave it out, or give the same")
	}
	if len(was.Album) > 0 && len(now.Buttons) > 0 {
		return notification.BadField("content.telegram.buttons", "telegram shows no buttons below an album")
	}
	withMediaOf(now, was)
	return nil
}

// correct corrects the accepted messages. After a crash it may repeat some corrections, which is harmless.
func (s *Service) correct(ctx context.Context, c *Campaign, t *task) error {
	c, err := s.store.Get(ctx, c.App, c.ID)
	if err != nil {
		return err
	}
	key, err := s.tokens.Key(ctx, c.App)
	if err != nil {
		return err
	}
	w := &walk{s: s, c: c, t: t, change: corrector{s, c, key}}
	if done, err := w.run(ctx); err != nil || !done {
		return err
	}
	_, err = s.store.Change(context.WithoutCancel(ctx), c.App, c.ID, func(c *Campaign) error {
		if c.State == Correcting {
			c.State = c.RecallFrom // the time and the reason of the campaign's end do not change
		}
		return nil
	})
	if err == nil {
		s.log.InfoContext(ctx, "campaign is corrected", "campaign", c.ID, "app", c.App)
	}
	return err
}

// corrector corrects one campaign's messages.
type corrector struct {
	s   *Service
	c   *Campaign
	key sealed.Key // of tracking tokens
}

func (corrector) wants(ch push.Channel) bool { return ch == correctable }

func (corrector) unable(sender push.Sender, ch push.Channel) string {
	if _, ok := sender.(push.Corrector); !ok {
		return "channel " + string(ch) + " cannot correct messages"
	}
	return ""
}

func (r corrector) make(ctx, hard context.Context, sender push.Sender, t *Target) (failed, err error) {
	sent := r.s.sent(r.c, t)
	sent.Request.Content = r.c.Spec.Of(Group(t.Group)).Render(Person{Recipient: t.Recipient, Locale: t.Locale, Attributes: t.Attributes}, t.Channel)
	pressAll(r.key, r.c, t.Row, &sent.Request.Content)
	if r.c.Spec.Tracked() {
		r.s.redirectAll(r.key, r.c.Num, t.Row, &sent.Request.Content)
	}
	return r.s.dispatch.Correct(ctx, hard, sender, t.Channel, sent)
}

func (r corrector) finish(ctx context.Context, epoch int64, results []RecallResult, from, next int64, now time.Time) error {
	return r.s.store.FinishCorrection(ctx, epoch, r.c.Num, results, from, next, now)
}
