package escalation

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// start is the decision about due steps.
type start struct {
	sends  []Send
	done   []mailbox.StepDone
	places map[Place]bool // places that get sends
}

// start decides which messages the steps send, which steps are skipped and which are postponed.
func (s *Service) start(ctx context.Context, due []mailbox.StepDue, now time.Time) (*start, error) {
	asked, err := s.ask(ctx, due, now)
	if err != nil {
		return nil, err
	}
	lists := make([][]Send, len(due))
	counted := make(map[string][]int) // indexes of steps with a limit, by app
	for i := range due {
		d := &due[i]
		if asked[i].Skip != "" {
			lists[i] = []Send{nobody(d, asked[i].Skip)}
			continue
		}
		if lists[i], err = s.sends(ctx, d); err != nil {
			return nil, fmt.Errorf("step %d of %s to %s: %w", d.Step, d.ID, d.Recipient, err)
		}
		// A step without endpoints is never postponed and does not count.
		if !lists[i][0].Nobody() && asked[i].Until.IsZero() && !asked[i].limit.IsZero() {
			counted[d.App] = append(counted[d.App], i)
		}
	}
	for app, list := range counted {
		if err := s.limit(ctx, app, list, due, asked, lists, now); err != nil {
			return nil, err
		}
	}
	st := &start{done: make([]mailbox.StepDone, len(due)), places: make(map[Place]bool)}
	for i := range due {
		d := &due[i]
		st.done[i] = mailbox.StepDone{Ref: ref(d), Step: d.Step}
		switch {
		case lists[i][0].Nobody():
			s.metrics.steps.WithLabelValues(d.Channel, "skipped").Inc()
			st.done[i].Skipped = true
		case !asked[i].Until.IsZero():
			s.metrics.steps.WithLabelValues(d.Channel, "put_off").Inc()
			st.done[i].Until = asked[i].Until
			continue
		default:
			s.begun(lists[i], d.Due)
			st.places[Place{d.App, push.Channel(d.Channel)}] = true
		}
		st.sends = append(st.sends, lists[i]...)
	}
	return st, nil
}

func ref(d *mailbox.StepDue) mailbox.Ref {
	return mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}
}

// nobody is the send of a skipped step, with the reason.
func nobody(d *mailbox.StepDue, why string) Send {
	return Send{
		ID: ID(d, audience.ID{}), App: d.App, Recipient: d.Recipient, Note: d.ID, Pos: d.Pos, Step: d.Step, Channel: push.Channel(d.Channel),
		ExpiresAt: d.ExpiresAt, Outcome: dispatch.Suppressed, Detail: why,
	}
}

// answer is the decision of a recipient's preferences about a step, with the limit for which it counts.
type answer struct {
	preference.Verdict
	category string // of its notification
	counts   string // the category that has the limit
	limit    preference.Limit
}

// ask reads the preferences of recipients, and the apps' settings for their categories. If there are none, as usual, it reads no
// notification.
func (s *Service) ask(ctx context.Context, due []mailbox.StepDue, now time.Time) ([]answer, error) {
	asked := make([]answer, len(due))
	said, err := s.said(ctx, due)
	if err != nil {
		return nil, err
	}
	var refs []mailbox.Ref
	var of []int // the steps of refs
	for i := range due {
		d := &due[i]
		if _, some := said[mailbox.Address{App: d.App, Recipient: d.Recipient}]; some || len(s.cfg.Categories(d.App)) > 0 {
			refs, of = append(refs, ref(d)), append(of, i)
		}
	}
	if len(refs) == 0 {
		return asked, nil
	}
	items, err := s.cfg.Mailbox.Items(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("read the notifications of steps: %w", err)
	}
	for n, i := range of {
		if items[n] == nil {
			continue // settled meanwhile: its step sends nothing
		}
		d, note := &due[i], items[n].N
		a := &asked[i]
		a.category, a.counts = note.Content.Category, note.Content.Category
		rules := s.cfg.Categories(d.App)
		rule, named := rules[a.category]
		if !named {
			rule, a.counts = rules[preference.Rest], preference.Rest
		}
		a.limit = rule.Limit
		p := said[mailbox.Address{App: d.App, Recipient: d.Recipient}]
		a.Verdict = p.Decide(&preference.Step{
			Channel: push.Channel(d.Channel), Category: a.category, High: note.Priority == notification.High, Critical: rule.Critical,
			Now: now, Expires: d.ExpiresAt,
		})
	}
	return asked, nil
}

// said reads the preferences of the steps' recipients, with one query for each app.
func (s *Service) said(ctx context.Context, due []mailbox.StepDue) (map[mailbox.Address]preference.Preferences, error) {
	recipients := make(map[string][]string)
	seen := make(map[mailbox.Address]bool)
	for i := range due {
		who := mailbox.Address{App: due[i].App, Recipient: due[i].Recipient}
		if !seen[who] {
			seen[who] = true
			recipients[who.App] = append(recipients[who.App], who.Recipient)
		}
	}
	said := make(map[mailbox.Address]preference.Preferences)
	for app, list := range recipients {
		of, err := s.cfg.Preferences.Preferences(ctx, app, list)
		if err != nil {
			return nil, err
		}
		for r, p := range of {
			said[mailbox.Address{App: app, Recipient: r}] = p
		}
	}
	return said, nil
}

// limit counts an app's steps, and skips those beyond a limit.
func (s *Service) limit(ctx context.Context, app string, list []int, due []mailbox.StepDue, asked []answer, lists [][]Send, now time.Time) error {
	steps := make([]preference.Begun, len(list))
	for n, i := range list {
		steps[n] = preference.Begun{ID: ID(&due[i], audience.ID{}), Recipient: due[i].Recipient, Category: asked[i].counts, Limit: asked[i].limit}
	}
	may, err := s.cfg.Preferences.Begin(ctx, app, steps, now)
	if err != nil {
		return err
	}
	for n, i := range list {
		if !may[n] {
			lists[i] = []Send{nobody(&due[i], preference.Beyond(asked[i].limit, asked[i].category))}
		}
	}
	return nil
}
