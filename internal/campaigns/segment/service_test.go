package segment_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// shelf is a service over a real store, with the app shop.
func shelf(t *testing.T) (*segment.Service, *testclock.Clock) {
	t.Helper()
	store, clock := sqlitetest.Apps(t, slog.New(slog.DiscardHandler)), testclock.New()
	if err := store.CreateApp(t.Context(), access.App{Name: "shop", CreatedAt: clock.Now()}); err != nil {
		t.Fatal(err)
	}
	return segment.New(&store.Segments, clock.Now), clock
}

func TestASegmentIsMadeChangedAndDeletedByItsRevision(t *testing.T) {
	s, clock := shelf(t)
	set := func(where string, must setting.Match) (segment.Segment, bool, error) {
		t.Helper()
		return s.Set(t.Context(), "shop", "vip", segment.Change{Where: where, Description: "Who pays", Must: must})
	}
	made, created, err := set("vip = true", setting.Exactly(""))
	if err != nil || !created || made.Where != "vip = true" || made.Description != "Who pays" || !made.CreatedAt.Equal(made.UpdatedAt) {
		t.Fatalf("made as %+v, %t, %v", made, created, err)
	}
	clock.Advance(-time.Hour) // the clock of another node is behind
	changed, created, err := set("vip = true and age >= 18", setting.Exactly(made.Revision()))
	if err != nil || created || !changed.CreatedAt.Equal(made.CreatedAt) || !changed.UpdatedAt.After(made.UpdatedAt) || changed.Revision() == made.Revision() {
		t.Fatalf("changed to %+v, %t, %v", changed, created, err)
	}
	if got, err := s.Get(t.Context(), "shop", "vip"); err != nil || got != changed {
		t.Errorf("read as %+v, %v; want %+v", got, err, changed)
	}
	var other *setting.ChangedError
	if _, _, err := set("x = 1", setting.Exactly(made.Revision())); !errors.As(err, &other) {
		t.Errorf("a change of the revision before: %v", err)
	}
	if err := s.Delete(t.Context(), "shop", "vip", setting.Exactly(made.Revision())); !errors.As(err, &other) {
		t.Errorf("a deletion of the revision before: %v", err)
	}
	if err := s.Delete(t.Context(), "shop", "vip", setting.Exactly(changed.Revision())); err != nil {
		t.Error(err)
	}
	_, gone := s.Get(t.Context(), "shop", "vip")
	for what, err := range map[string]error{"read": gone, "deleted": s.Delete(t.Context(), "shop", "vip", setting.Match{})} {
		if !errors.Is(err, segment.ErrUnknown) {
			t.Errorf("a deleted one is %s: %v", what, err)
		}
	}
}

func TestBadSegmentsNameTheirField(t *testing.T) {
	s, _ := shelf(t)
	for field, c := range map[string]segment.Change{
		"name":        {Where: "a = 1"},
		"where":       {},
		"description": {Where: "a = 1", Description: strings.Repeat("é", segment.MaxDescription+1)},
	} {
		name := "vip"
		if field == "name" {
			name = "v i p"
		}
		wantField(t, errOf(s.Set(t.Context(), "shop", name, c)), field)
	}
	wantField(t, errOf(s.Set(t.Context(), "shop", "vip", segment.Change{Where: "city = Oslo"})), "where")
	if _, _, err := s.Set(t.Context(), "shop", "vip", segment.Change{Where: "a = 1", Description: strings.Repeat("é", segment.MaxDescription)}); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Set(t.Context(), "nobody", "vip", segment.Change{Where: "a = 1"}); !errors.Is(err, access.ErrUnknownApp) {
		t.Errorf("a segment of an app that there is not: %v", err)
	}
}

func errOf(_ segment.Segment, _ bool, err error) error { return err }

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *notification.FieldError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Errorf("%v, want an error of %s", err, field)
	}
}

func TestAnAppHasSoManySegments(t *testing.T) {
	s, _ := shelf(t)
	for i := range segment.MaxSegments {
		if _, _, err := s.Set(t.Context(), "shop", fmt.Sprintf("s%d", i), segment.Change{Where: "a = 1"}); err != nil {
			t.Fatal(err)
		}
	}
	wantField(t, errOf(s.Set(t.Context(), "shop", "more", segment.Change{Where: "a = 1"})), "name")
	if _, _, err := s.Set(t.Context(), "shop", "s0", segment.Change{Where: "a = 2"}); err != nil {
		t.Errorf("a change of one: %v", err)
	}
	if list, err := s.List(t.Context(), "shop", "", 500); err != nil || len(list) != segment.MaxSegments {
		t.Errorf("%d are listed, %v", len(list), err)
	}
}

func TestASegmentThatACampaignWillNeedStays(t *testing.T) {
	s, _ := shelf(t)
	uses := "Tides"
	away := errors.New("the store is away")
	var fails error
	s.AskBeforeDeletion(func(_ context.Context, app, name string) (string, error) {
		if app != "shop" || name != "vip" {
			t.Errorf("asked for %s of %s", name, app)
		}
		return uses, fails
	})
	made, _, err := s.Set(t.Context(), "shop", "vip", segment.Change{Where: "a = 1"})
	if err != nil {
		t.Fatal(err)
	}
	var used *segment.UsedError
	if err := s.Delete(t.Context(), "shop", "vip", setting.Match{}); !errors.As(err, &used) || !strings.Contains(err.Error(), "segment vip is used by campaign Tides") {
		t.Errorf("it is deleted: %v", err)
	}
	fails = away
	if err := s.Delete(t.Context(), "shop", "vip", setting.Match{}); !errors.Is(err, away) {
		t.Errorf("nobody could be asked: %v", err)
	}
	if got, err := s.Get(t.Context(), "shop", "vip"); err != nil || got != made {
		t.Errorf("it is %+v, %v", got, err)
	}
	uses, fails = "", nil
	if err := s.Delete(t.Context(), "shop", "vip", setting.Match{}); err != nil {
		t.Error(err)
	}
}

func TestAnAudienceIsFilledWithItsSegment(t *testing.T) {
	s, _ := shelf(t)
	if _, _, err := s.Set(t.Context(), "shop", "vip", segment.Change{Where: `vip = true or plan = "pro"`}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ where, want string }{
		{"", `vip = true or plan = "pro"`},
		{"age >= 18 or city = \"Oslo\"", `(vip = true or plan = "pro") and (age >= 18 or city = "Oslo")`},
	} {
		a := audience.Audience{Segment: "vip", Where: c.where, TagsAny: []string{"news"}}
		where, err := s.Fill(t.Context(), "shop", &a, "audience")
		if err != nil || where != `vip = true or plan = "pro"` || a.Where != c.want || a.Segment != "" || len(a.TagsAny) != 1 {
			t.Errorf("%q: %+v, %q, %v", c.where, a, where, err)
		}
		if _, err := a.Select(""); err != nil {
			t.Error(err)
		}
	}
	for field, a := range map[string]audience.Audience{
		"audience.segment": {Segment: "nobody"},
		"audience.where":   {Segment: "vip", Where: "a = 1) or (b = 2"}, // it would leave the segment
		"audience.tags_any[0]": {
			Segment: "vip", TagsAny: []string{"a,b"},
		},
	} {
		_, err := s.Fill(t.Context(), "shop", &a, "audience")
		wantField(t, err, field)
		if a.Segment == "" {
			t.Errorf("%s: the refused audience lost its segment", field)
		}
	}
	bad := audience.Audience{Segment: "v i p"}
	_, err := s.Fill(t.Context(), "shop", &bad, "")
	wantField(t, err, "segment")
	long := audience.Audience{Segment: "vip", Where: "a = \"" + strings.Repeat("x", audience.MaxExprBytes-30) + "\""}
	_, err = s.Fill(t.Context(), "shop", &long, "")
	if wantField(t, err, "where"); err == nil || !strings.Contains(err.Error(), "together with segment vip") {
		t.Errorf("too long together: %v", err)
	}
	none := audience.Audience{Where: "a = 1"}
	if where, err := s.Fill(t.Context(), "shop", &none, ""); err != nil || where != "" || none.Where != "a = 1" {
		t.Errorf("of no segment: %+v, %q, %v", none, where, err)
	}
	if _, err := (&audience.Audience{Segment: "vip"}).Select(""); err == nil {
		t.Error("an audience whose segment nobody looked up is everybody")
	}
}
