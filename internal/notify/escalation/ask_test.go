package escalation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// people are recipients with one endpoint each (the recipient nobody has none), and their preferences.
type people struct {
	said  map[string]preference.Preferences // by recipient
	begun map[string]int                    // by recipient and category
	notes map[int64]*notification.Notification
	reads int
	fail  error
}

func (p *people) AckCopies(context.Context, []mailbox.CopyAck) (int, error) { return 0, nil }

func (p *people) EndpointsOf(_ context.Context, _, recipient string) ([]audience.Endpoint, error) {
	if recipient == "nobody" {
		return nil, nil
	}
	return []audience.Endpoint{{Number: 1, Channel: push.FCM, Recipient: recipient, Status: audience.Active}}, nil
}

func (p *people) Preferences(_ context.Context, app string, recipients []string) (map[string]preference.Preferences, error) {
	said := make(map[string]preference.Preferences)
	for _, r := range recipients {
		if of, some := p.said[r]; some && app == "shop" {
			said[r] = of
		}
	}
	return said, p.fail
}

func (p *people) Begin(_ context.Context, _ string, steps []preference.Begun, _ time.Time) (may []bool, err error) {
	for _, b := range steps {
		p.begun[b.Recipient+" "+b.Category]++
		may = append(may, p.begun[b.Recipient+" "+b.Category] <= b.Limit.Count)
	}
	return may, nil
}

func (p *people) PruneBegun(context.Context, time.Time, int) (bool, error) { return false, nil }

func (p *people) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	p.reads += len(refs)
	items := make([]*mailbox.Item, len(refs))
	for i, r := range refs {
		if n := p.notes[r.Pos]; n != nil {
			items[i] = &mailbox.Item{N: n, Recipient: r.Recipient, Pos: r.Pos}
		}
	}
	return items, nil
}

func (p *people) Online(context.Context, string, string) ([]string, error) { return nil, nil }

// due is a step for a notification to recipient in category; "-" means that the notification is settled.
func (p *people) due(recipient, category string, change ...func(*notification.Notification)) mailbox.StepDue {
	d := mailbox.StepDue{App: "shop", Recipient: recipient, ID: "n", Pos: int64(len(p.notes) + 1), Channel: "fcm", ExpiresAt: night.Add(24 * time.Hour)}
	n := &notification.Notification{App: "shop", ID: "n", Content: notification.Content{Category: category}}
	for _, f := range change {
		f(n)
	}
	if p.notes[d.Pos] = n; category == "-" {
		p.notes[d.Pos] = nil
	}
	return d
}

var (
	night   = time.Date(2026, 1, 10, 22, 0, 0, 0, time.UTC)
	morning = time.Date(2026, 1, 11, 8, 0, 0, 0, time.UTC)
	sleeps  = preference.Preferences{Quiet: &preference.Hours{From: "22:00", To: "08:00"}, Timezone: "UTC"}
	noAds   = preference.Preferences{Categories: map[string]preference.Choice{"promo": {Channels: []push.Channel{}}}}
)

func asking(p *people, categories map[string]preference.Category) *Service {
	return New(Config{
		Mailbox: p, Endpoints: p, Preferences: p,
		Categories: func(app string) map[string]preference.Category {
			if app != "shop" {
				return nil
			}
			return categories
		},
	})
}

func newPeople(said map[string]preference.Preferences) *people {
	return &people{said: said, begun: map[string]int{}, notes: map[int64]*notification.Notification{}}
}

// became describes the decision about each step: sent, postponed until a time, or skipped for a reason.
func became(t *testing.T, s *Service, due []mailbox.StepDue) (list []string) {
	t.Helper()
	st, err := s.start(t.Context(), due, night)
	if err != nil {
		t.Fatal(err)
	}
	sends := st.sends
	for i, d := range st.done {
		if d.Ref != ref(&due[i]) || d.Step != due[i].Step {
			t.Fatalf("step %d is told as %+v", i, d)
		}
		if !d.Until.IsZero() {
			list = append(list, "until "+d.Until.Format("15:04"))
			continue
		}
		if len(sends) == 0 || sends[0].Pos != d.Pos || sends[0].Note != "n" || (sends[0].Endpoint == 0) != d.Skipped {
			t.Fatalf("step %d: sends %+v; done %+v", i, sends, d)
		}
		if list = append(list, "sent"); d.Skipped {
			list[i] = sends[0].Detail
		}
		sends = sends[1:]
	}
	if len(sends) > 0 {
		t.Fatalf("sends of no step: %+v", sends)
	}
	return list
}

func TestPreferencesAreAskedWhenStepsStart(t *testing.T) {
	p := newPeople(map[string]preference.Preferences{"ann": noAds, "bob": sleeps, "nobody": sleeps})
	s := asking(p, map[string]preference.Category{"alarm": {Critical: true}})
	high := func(n *notification.Notification) { n.Priority = notification.High }
	other := p.due("ann", "promo")
	other.App = "other"
	soon := p.due("bob", "")
	soon.ExpiresAt = morning
	due := []mailbox.StepDue{
		p.due("ann", "promo"), p.due("ann", "promo", high), p.due("ann", "rides"), p.due("bob", "promo"), p.due("bob", "promo", high),
		p.due("bob", "alarm"), p.due("carl", "promo"), p.due("nobody", "promo"), soon, other, p.due("ann", "-"),
	}
	want := []string{
		"promo come over fcm", "promo come over fcm", "sent", "until 08:00", "sent",
		"sent", "sent", "no active endpoint", "has expired", "sent", "sent",
	}
	for i, got := range became(t, s, due) {
		if !strings.Contains(got, want[i]) {
			t.Errorf("step %d to %s: %s; want %q", i, due[i].Recipient, got, want[i])
		}
	}
}

func TestLimitsCountWhatIsSent(t *testing.T) {
	p := newPeople(map[string]preference.Preferences{"ann": noAds, "bob": sleeps})
	s := asking(p, map[string]preference.Category{
		"promo": {Limit: preference.Limit{Count: 1, Per: time.Hour}}, "alarm": {}, "*": {Limit: preference.Limit{Count: 2, Per: time.Hour}},
	})
	due := []mailbox.StepDue{
		p.due("ann", "promo"), p.due("bob", "promo"), p.due("nobody", "promo"), p.due("carl", "promo"), p.due("carl", "promo"),
		p.due("carl", "alarm"), p.due("carl", "alarm"), p.due("carl", "rides"), p.due("carl", ""), p.due("carl", "rides"),
	}
	want := []string{
		"preferences", "until", "no active endpoint", "sent", "category promo as the app allows have begun for the recipient: 1/h",
		"sent", "sent", "sent", "sent", "category rides as the app allows have begun for the recipient: 2/h",
	}
	for i, got := range became(t, s, due) {
		if !strings.Contains(got, want[i]) {
			t.Errorf("step %d to %s: %s; want %q", i, due[i].Recipient, got, want[i])
		}
	}
	if got := fmt.Sprint(p.begun); got != "map[carl *:3 carl promo:2]" {
		t.Errorf("counted %s", got)
	}
}

func TestNotificationsAreReadOnlyForRecipientsWithPreferences(t *testing.T) {
	p := newPeople(map[string]preference.Preferences{"ann": noAds})
	due := []mailbox.StepDue{p.due("bob", "promo"), p.due("carl", ""), p.due("ann", "promo")}
	if got := became(t, asking(p, nil), due[:2]); fmt.Sprint(got) != "[sent sent]" || p.reads != 0 {
		t.Errorf("%q, and %d notifications were read", got, p.reads)
	}
	if got := became(t, asking(p, nil), due); got[2] == "sent" || p.reads != 1 {
		t.Errorf("%q, and %d notifications were read; want ann's alone", got, p.reads)
	}
}

func TestPreferencesThatCannotBeReadHoldStepsBack(t *testing.T) {
	p := newPeople(nil)
	p.fail = errors.New("the disk is gone")
	if st, err := asking(p, nil).start(t.Context(), []mailbox.StepDue{p.due("ann", "promo")}, night); !errors.Is(err, p.fail) {
		t.Errorf("%+v, %v", st, err)
	}
}
