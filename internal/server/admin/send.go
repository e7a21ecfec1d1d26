package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Publisher takes notifications.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// mostReceivers limits the recipients of a notification from the page. Campaigns are for more.
const mostReceivers = 20

// sendPage is the form of one notification.
type sendPage struct {
	Form     *form
	Key      string // the notification's id: a form posted twice publishes one notification
	Channels []channelChoice
	Preview  sendPreview
}

// sendPreview is the content beside the form.
type sendPreview struct {
	Troubles []trouble
	Previews []bubble
	Way      []string // the notification's steps in their order, as sentences
}

// sending is a posted form that is being read into a notification.
type sending struct {
	*reading
	draft notification.Draft
	more  bool // another line is asked for
}

func (a *admin) composeNotification(v *visit) error {
	values := url.Values{"to": {text(v.r.URL.Query(), "to")}}
	return a.sendForm(v, http.StatusOK, &sendPage{Form: &form{Values: values, lang: v.lang}, Key: rand.Text()})
}

// sendForm shows the form, as a whole page or as the part that htmx replaces.
func (a *admin) sendForm(v *visit, status int, p *sendPage) error {
	v.again = true
	for _, ch := range push.Channels() {
		if ch != push.Live && a.Ready(v.r.Context(), v.person.App, ch) {
			p.Channels = append(p.Channels, channelChoice{Name: ch, Ready: true})
		}
	}
	if v.r.Header.Get("HX-Request") != "" {
		a.answer(v, status, "send", "content", p)
		return nil
	}
	title := v.t("One notification")
	if len(p.Form.Problems) > 0 {
		title = v.t("Not sent: %s", title)
	}
	a.answer(v, status, "send", "page", frame{Title: title, Here: "send", Person: v.person, Version: a.Version, Content: p})
	return nil
}

// sendNotification publishes the composed notification and redirects to its page, or shows the form again with its mistakes.
func (a *admin) sendNotification(v *visit) error {
	s, err := readSending(v)
	if err != nil {
		return err
	}
	page := &sendPage{Form: &s.form, Key: s.draft.ID}
	switch {
	case s.more:
		s.Problems = nil
		return a.sendForm(v, http.StatusOK, page)
	case text(s.Values, "then") == "preview":
		page.Preview = a.sendPreview(s)
		return a.sendForm(v, http.StatusOK, page)
	case len(s.Problems) > 0:
		return a.sendForm(v, http.StatusUnprocessableEntity, page)
	}
	if a.PublishLimit != nil {
		if wait := a.PublishLimit(cmp.Or(v.person.Key, v.person.Name()), 1); wait > 0 {
			s.blame("", "this key has published as much as it may for now; come back in %s", wait.Round(time.Second))
			return a.sendForm(v, http.StatusTooManyRequests, page)
		}
	}
	r := a.Publisher.Publish(v.r.Context(), v.person.App, []*notification.Draft{&s.draft})[0]
	v.made = r.ID
	if status := s.outcome(&r); status != http.StatusOK {
		if slices.ContainsFunc(r.Copies, func(c delivery.Copy) bool { return c.Err == nil }) { // some have it
			a.note(v.r, v.person, "notification.publish", r.ID, audit.Done)
		}
		if status == 0 {
			return r.Err
		}
		if status == http.StatusConflict {
			page.Key = rand.Text()
		}
		return a.sendForm(v, status, page)
	}
	a.Log.InfoContext(v.r.Context(), "notification published on the web page", "app", v.person.App, "id", r.ID, "recipients", len(r.Copies), "by", v.person.Name())
	to := "/ui/notifications/" + url.PathEscape(r.ID)
	if len(r.Copies) == 1 {
		to = copyURL(r.ID, r.Copies[0].To)
	}
	a.leadTo(v, to, http.StatusOK)
	return nil
}

// outcome adds the reason of a refused publish to the form, and returns the answer's status; 0: the error is for the log.
func (s *sending) outcome(r *delivery.Result) (status int) {
	var field *notification.FieldError
	switch {
	case errors.As(r.Err, &field):
		s.blame(s.field(field.Field), asItIs, field)
		return http.StatusUnprocessableEntity
	case errors.Is(r.Err, mailbox.ErrNoSpace), errors.Is(r.Err, mailbox.ErrAway):
		s.blame("", "%s; nothing was sent", r.Err)
		return http.StatusServiceUnavailable
	case r.Err != nil:
		return 0
	}
	status = http.StatusOK
	for i := range r.Copies {
		switch c := &r.Copies[i]; {
		case errors.Is(c.Err, mailbox.ErrConflict):
			s.blame("", "this form was sent before and has changed since. Sending it again makes another notification")
			status = http.StatusConflict
		case errors.Is(c.Err, mailbox.ErrFull):
			s.blame("to", "it was not sent to %s, for whom as many notifications wait as may wait for one recipient", c.To)
			status = http.StatusUnprocessableEntity
		case c.Err != nil:
			s.blame("to", "it was not sent to %s: %s", clip(c.To, 80), c.Err)
			status = http.StatusUnprocessableEntity
		}
	}
	return status
}

// previewNotification shows beside the form how the notification will look, and what happens when.
func (a *admin) previewNotification(v *visit) error {
	s, err := readSending(v)
	if err != nil {
		return err
	}
	return a.part(v, "send", "sendpreview", a.sendPreview(s))
}

func (a *admin) sendPreview(s *sending) (p sendPreview) {
	d := &s.draft
	if d.Content.Title == "" && d.Content.Body == "" {
		return p
	}
	if to, ok := s.Problems["to"]; ok && len(d.To) == 0 && to != "" {
		delete(s.Problems, "to") // not said yet
		d.To = []string{"somebody"}
	}
	if _, err := d.Check("preview", a.now(), rand.Text); err != nil {
		s.outcome(&delivery.Result{Err: err})
	}
	if p.Troubles = s.troubles(); len(p.Troubles) > 0 {
		return p
	}
	shown := []push.Channel{push.Live}
	for _, step := range d.Escalate {
		if ch := push.Channel(step.Channel); ch != push.Live {
			shown = append(shown, ch)
		}
	}
	for _, ch := range shown {
		p.Previews = append(p.Previews, bubble{Channel: ch, Title: d.Content.Title, Body: d.Content.Body})
	}
	p.Way = way(s.speaks(), d)
	return p
}

// way describes a notification's steps in sentences.
func way(l *words.Language, d *notification.Draft) (all []string) {
	all = append(all, l.T("At once to every device that is connected."))
	for _, step := range d.Escalate {
		if step.Channel == notification.Live {
			continue
		}
		over := l.T(channelWord(push.Channel(step.Channel)))
		if step.After > 0 {
			all = append(all, l.T("%[1]s later over %[2]s, unless it is acknowledged by then; at once if nobody is connected.", spoken(step.After), over))
		} else {
			all = append(all, l.T("At once over %s, unless it is acknowledged by then; at once if nobody is connected.", over))
		}
	}
	ttl := d.TTL
	if ttl == 0 {
		ttl = notification.DefaultTTL
	}
	return append(all, l.T("Given up after %s.", spoken(ttl)))
}

// readSending reads a posted form. An unreadable value is a problem of its field.
func readSending(v *visit) (*sending, error) {
	if err := parseForm(v.r); err != nil {
		return nil, err
	}
	s := &sending{reading: newReading(v.lang, v.r.PostForm)}
	s.clean()
	s.more = s.addLine(compact(s.Values))
	d := &s.draft
	d.ID = s.text("key")
	d.To = strings.FieldsFunc(s.Values.Get("to"), func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
	s.receivers()
	d.Content = notification.Content{Title: s.text("title"), Body: s.text("body"), Category: s.text("category")}
	if d.Content.Data = s.json("data"); d.Content.Data != nil {
		d.Content.ContentType = "application/json"
	}
	if d.Content.Title == "" && d.Content.Body == "" && d.Content.Data == nil {
		s.blame("title", "write a title or a text: an empty notification says nothing")
	}
	d.TTL, d.CollapseKey = time.Duration(s.duration("ttl", 0)), s.text("collapse_key")
	var ok bool
	if d.Priority, ok = notification.ParsePriority(orElse(s.text("priority"), "normal")); !ok {
		s.blame("priority", "must be high, normal or low")
	}
	if d.Ack, ok = notification.ParseAckMode(orElse(s.text("ack"), "any")); !ok {
		s.blame("ack", "must be any, all or none")
	}
	s.steps()
	return s, nil
}

func (s *sending) receivers() {
	switch to := s.draft.To; {
	case len(to) == 0:
		s.blame("to", "say who is to get it: the name of a recipient, or a few")
	case len(to) > mostReceivers:
		s.blame("to", "has %s recipients; at most %s are sent to here. Make a campaign for more", len(to), mostReceivers)
	default:
		for _, name := range to {
			if err := notification.CheckName("to", name); err != nil {
				s.blame("to", "%q is no name: names have 1 to 128 letters, digits or . _ : @ + -", clip(name, 80))
			}
		}
	}
}

// steps reads the steps after live.
func (s *sending) steps() {
	for n := range s.filled("step") {
		at := func(name string) string { return lineField("step", n, name) }
		if len(s.draft.Escalate) == 0 {
			s.draft.Escalate = []notification.Step{{Channel: notification.Live}}
		}
		channel := s.text(at("channel"))
		if channel == "" {
			s.blame(at("channel"), "say over which channel")
		}
		s.draft.Escalate = append(s.draft.Escalate, notification.Step{Channel: channel, After: time.Duration(s.duration(at("after"), 0))})
	}
}

// field returns the form's field for an error of the API; empty: there is none.
func (s *sending) field(name string) string {
	rest, ok := strings.CutPrefix(name, "escalate[")
	if !ok {
		name, _, _ = strings.Cut(name, "[")
		if name == "escalate" {
			return lineField("step", 0, "channel")
		}
		return name // if the form has no such field, blame assigns the problem to the whole form
	}
	number, field, _ := strings.Cut(rest, "].")
	n, _ := strconv.Atoi(number)
	return lineField("step", max(n-1, 0), field) // the first step, live, is not in the form
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// stepChoice makes the field with the channels that a step may use.
func stepChoice(f *form, name string, channels []channelChoice) (line, error) {
	options := []string{"", f.speaks().T("none")}
	for _, c := range channels {
		options = append(options, string(c.Name), f.speaks().T(channelWord(c.Name)))
	}
	return newChoice(f, name, options...)
}

// spoken writes a duration for people: 24h.
func spoken(d time.Duration) string { return duration(campaign.Duration(d)) }
