package campaign_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// shelves holds the segments of the app demo.
type shelves struct {
	mu    sync.Mutex
	where map[string]string
}

// put stores a segment; an empty expression deletes it.
func (s *shelves) put(name, where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.where == nil {
		s.where = make(map[string]string)
	}
	s.where[name] = where
}

func (s *shelves) Fill(_ context.Context, of string, a *audience.Audience, field string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	where := s.where[a.Segment]
	if of != app || where == "" {
		return "", notification.LapsedField(field+".segment", "there is no segment %s", a.Segment)
	}
	*a = a.Within(where)
	return where, nil
}

// numbered registers n endpoints whose attribute n counts from 0.
func (e *env) numbered(n int) {
	e.Helper()
	e.endpoints(push.Webhook, n, func(i int, ep *audience.Endpoint) {
		ep.Attributes = audience.Attributes{"n": audience.Number(float64(i))}
	})
}

func toSegment(name, where string) campaign.Spec {
	spec := hello()
	spec.Audience = audience.Audience{Segment: name, Where: where}
	return spec
}

// reaches checks how many deliveries a campaign has, and the expression that it used.
func (e *env) reaches(id string, n int, where string) {
	e.Helper()
	v := e.untilState(id, campaign.Completed)
	if g := v.Spec.Segment; int(v.Total()) != n || g == nil || g.Where != where {
		e.Errorf("it reached %d with %+v, want %d with %s", v.Total(), g, n, where)
	}
}

func TestACampaignTakesTheExpressionOfTheMomentAtWhichItBegins(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.numbered(10)
	e.run()
	e.shelf.put("few", "n < 1")
	draft := e.create(toSegment("few", "n != 0 or n = 2"))
	scheduled, err := e.svc.Create(t.Context(), app, toSegment("few", ""), time.Now().Add(time.Hour), "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	due, err := e.svc.Create(t.Context(), app, toSegment("few", ""), time.Now().Add(2*time.Second), "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.svc.Pause(t.Context(), app, scheduled.ID); err != nil {
		t.Fatal(err)
	}
	e.shelf.put("few", "n < 4 or n = 9")
	e.reaches(due.ID, 5, "n < 4 or n = 9")
	e.start(draft)
	e.reaches(draft, 4, "n < 4 or n = 9")

	e.shelf.put("few", "n < 2")
	if v, err := e.svc.Start(t.Context(), app, e.create(toSegment("few", "")), time.Time{}); err != nil || v.Spec.Segment.Where != "n < 2" {
		t.Errorf("%+v, %v", v, err)
	}
	if pre, err := e.svc.Preview(t.Context(), app, scheduled.ID, campaign.Person{}, "", nil); err != nil || pre.Audience[push.Webhook] != 2 {
		t.Errorf("the preview counts %+v, %v; want the segment as it is now", pre, err)
	}
}

func TestACampaignThatHasBegunKeepsItsExpression(t *testing.T) {
	p := &provider{}
	release := p.holdBack(2)
	t.Cleanup(release) // also when the test fails, so that the engine ends
	e := newEnv(t, senders{push.Webhook: p})
	e.numbered(20)
	e.run()
	e.shelf.put("few", "n < 10")
	id := e.create(toSegment("few", ""))
	e.start(id)
	if _, err := e.svc.Pause(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	e.shelf.put("few", "") // deleted
	release()
	if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	e.reaches(id, 10, "n < 10")
	if name, err := e.svc.UsesSegment(t.Context(), app, "few"); err != nil || name != "" {
		t.Errorf("%q still needs the segment, %v", name, err)
	}
}

func TestAScheduledCampaignWhoseSegmentIsGonePausesAndSaysSo(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.numbered(3)
	e.shelf.put("few", "n < 2")
	v, err := e.svc.Create(t.Context(), app, toSegment("few", ""), time.Now().Add(time.Second), "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	e.shelf.put("few", "")
	e.run()
	if v = e.untilState(v.ID, campaign.Paused); !strings.Contains(v.Detail, "there is no segment few") || !v.StartedAt.IsZero() {
		t.Errorf("it says %q, started %s", v.Detail, v.StartedAt)
	}
	var bad *notification.FieldError
	if _, err := e.svc.Resume(t.Context(), app, v.ID); !errors.As(err, &bad) || bad.Field != "audience.segment" {
		t.Errorf("resumed without its segment: %v", err)
	}
	e.shelf.put("few", "n < 1")
	if _, err := e.svc.Resume(t.Context(), app, v.ID); err != nil {
		t.Fatal(err)
	}
	e.reaches(v.ID, 1, "n < 1")
}

func TestASegmentStaysWithItsCampaignUntilAnotherAudienceIsGiven(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.shelf.put("few", "n < 5")
	id := e.create(toSegment("few", "n > 1"))
	was := e.get(id).Spec
	if asked := was.Asked(); asked.Segment != "few" || asked.Where != "n > 1" || was.Audience.Where != "(n < 5) and (n > 1)" {
		t.Errorf("asked is %+v of %+v", asked, was.Audience)
	}
	e.shelf.put("few", "n < 6")
	revise := func(spec campaign.Spec) *campaign.View {
		t.Helper()
		v, err := e.svc.Revise(t.Context(), app, id, spec, time.Time{}, setting.Match{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	was.Name = "Again" // as a copy of a campaign or a form does: the rest as it is stored
	if v := revise(was); v.Spec.Segment == nil || v.Spec.Segment.Where != "n < 6" || v.Spec.Audience.Where != "(n < 6) and (n > 1)" {
		t.Errorf("with another name: %+v, %+v", v.Spec.Segment, v.Spec.Audience)
	}
	if v, err := e.svc.Clone(t.Context(), app, id, "", "", [32]byte{}); err != nil || v.Spec.Segment == nil || v.Spec.Asked().Segment != "few" || v.Spec.Asked().Where != "n > 1" {
		t.Errorf("a copy of it: %+v, %v", v, err)
	}
	was.Audience.Where = "n > 3"
	if v := revise(was); v.Spec.Segment != nil || v.Spec.Audience.Where != "n > 3" || v.Spec.Asked().Segment != "" {
		t.Errorf("with another audience: %+v, %+v", v.Spec.Segment, v.Spec.Audience)
	}
	_, err := e.svc.Revise(t.Context(), app, id, toSegment("nobody", ""), time.Time{}, setting.Match{})
	var bad *notification.FieldError
	if !errors.As(err, &bad) || bad.Field != "audience.segment" {
		t.Errorf("to a segment that there is not: %v", err)
	}
}

func TestBothVariantsOfACampaignGoToItsSegment(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.numbered(20)
	e.run()
	e.shelf.put("few", "n < 10")
	spec := toSegment("few", "")
	second := campaign.Content{Content: push.Content{Title: "Ho"}}
	spec.Variants = []campaign.Variant{{Share: 50}, {Share: 50, Content: &second}}
	id := e.create(spec)
	e.shelf.put("few", "n < 6")
	e.start(id)
	e.reaches(id, 6, "n < 6")
}

func TestWhichCampaignNeedsASegmentIsTold(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.shelf.put("few", "n < 5")
	e.shelf.put("many", "n > 5")
	uses := func(of, segment, want string) {
		t.Helper()
		if name, err := e.svc.UsesSegment(t.Context(), of, segment); err != nil || name != want {
			t.Errorf("%s is used by %q, %v; want %q", segment, name, err, want)
		}
	}
	uses(app, "few", "")
	id := e.create(toSegment("few", ""))
	uses(app, "few", id)
	uses(app, "many", "")
	uses("other", "few", "")
	spec := toSegment("many", "")
	spec.Name = "Tides"
	if _, err := e.svc.Create(t.Context(), app, spec, time.Now().Add(time.Hour), "", [32]byte{}); err != nil {
		t.Fatal(err)
	}
	uses(app, "many", "Tides")
	if _, err := e.svc.Cancel(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	uses(app, "few", "")
}
