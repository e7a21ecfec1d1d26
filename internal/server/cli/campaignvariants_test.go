package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFlagsOfASecondVariantMakeTheRequest(t *testing.T) {
	for want, f := range map[string]variantFlags{
		`{}`: {},
		`{"variants":[{"share":50},{"content":{"body":"text","title":"B"},"share":50}]}`:                                     {title: "B"},
		`{"decide_after":"4h","metric":"shown","variants":[{"share":20},{"share":20,"template":"tides"}]}`:                   {template: "tides", share: 20, metric: "shown", after: "4h"},
		`{"local_time":{"at":"2026-12-24T09:00"}}`:                                                                           {localTime: "2026-12-24T09:00"},
		`{"local_time":{"at":"2026-12-24T09:00","fallback":"Europe/Oslo","passed":"now"}}`:                                   {localTime: "2026-12-24T09:00", localZone: "Europe/Oslo", localPast: "now"},
		`error: --share is how many get each variant; say what the second one says with --b-title, --b-body or --b-template`: {share: 20},
		`error: the second variant has a template or texts, not both`:                                                        {title: "B", template: "tides"},
		`error: --local-fallback and --local-passed go with --local-time`:                                                    {localPast: "now"},
	} {
		spec := map[string]any{}
		content := map[string]any{"title": "A", "body": "text"}
		err := f.into(spec, content)
		b, _ := json.Marshal(spec)
		got := string(b)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want || content["title"] != "A" {
			t.Errorf("%+v:\n%s, want\n%s", f, got, want)
		}
	}
}

func TestVariantsAreShownWithTheirDecision(t *testing.T) {
	c := campaignJSON{ID: "c1"}
	c.Variants = []variantJSON{{Name: "A", Share: 20, Title: "Hello", groupJSON: groupJSON{Counts: map[string]int64{"accepted": 5}, Shown: 3, Clicked: 1}}}
	c.Rest = &groupJSON{Counts: map[string]int64{"pending": 9}}
	c.Decision = &decisionJSON{Variant: "A", Reason: "A has the larger share"}
	var b strings.Builder
	c.showVariants(&b)
	want := "  A (20 %, Hello): 5 accepted; shown 3, clicked 1\n  the rest: 0 accepted, 9 pending; shown 0, clicked 0\n  the rest gets A: A has the larger share\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}
