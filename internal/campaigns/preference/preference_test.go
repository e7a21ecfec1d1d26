package preference

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

func parse(t *testing.T, text string) *Preferences {
	t.Helper()
	p := new(Preferences)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInvalidPreferenceNamesItsField(t *testing.T) {
	many := make([]string, MaxCategories+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"c%d":{}`, i)
	}
	for text, field := range map[string]string{
		`{}`: "",
		`{"categories":{"*":{},"promo":{"channels":[]},"rides":{"channels":["fcm","webhook"]}},"timezone":"Europe/Oslo"}`: "",
		`{"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Europe/Oslo"}`:                                          "",
		`{"categories":{` + strings.Join(many[1:], ",") + `}}`:                                                            "",
		`{"categories":{` + strings.Join(many, ",") + `}}`:                                                                "categories",
		`{"categories":{"a b":{}}}`:                                                                                       "categories",
		`{"categories":{"":{}}}`:                                                                                          "categories",
		`{"categories":{"promo":{"channels":["fcm","pigeon"]}}}`:                                                          "categories.promo.channels[1]",
		`{"categories":{"promo":{"channels":["live"]}}}`:                                                                  "categories.promo.channels[0]",
		`{"categories":{"*":{"channels":["fcm","fcm"]}}}`:                                                                 "categories.*.channels[1]",
		`{"timezone":"Mars/Olympus"}`:                                                                                     "timezone",
		`{"timezone":"Local"}`:                                                                                            "timezone",
		`{"quiet_hours":{"from":"22:00","to":"08:00"}}`:                                                                   "timezone",
		`{"quiet_hours":{"from":"22:00"},"timezone":"UTC"}`:                                                               "quiet_hours.to",
		`{"quiet_hours":{"from":"22","to":"08:00"},"timezone":"UTC"}`:                                                     "quiet_hours.from",
		`{"quiet_hours":{"from":"22:00","to":"22:00"},"timezone":"Europe/Oslo"}`:                                          "quiet_hours.to",
	} {
		err := parse(t, text).Check()
		var bad *notification.FieldError
		if errors.As(err, &bad); (err == nil) != (field == "") || bad != nil && bad.Field != field {
			t.Errorf("%s: %v, want an error of %q", text, err, field)
		}
	}
}

func TestEveryChannelIsNotTheSameAsNone(t *testing.T) {
	for _, text := range []string{`{"categories":{"a":{},"b":{"channels":[]}}}`, `{}`} {
		b, err := json.Marshal(parse(t, text))
		if err != nil || string(b) != text {
			t.Errorf("%s is written as %s, %v", text, b, err)
		}
	}
	if !parse(t, `{"categories":{}}`).IsZero() || parse(t, `{"categories":{"a":{}}}`).IsZero() || parse(t, `{"timezone":"UTC"}`).IsZero() {
		t.Error("what says nothing is not told from what says something")
	}
}

func TestWhetherAStepStarts(t *testing.T) {
	const quiet = `"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Europe/Oslo"`
	const (
		none = `{"categories":{"promo":{"channels":[]},"rides":{}}}`
		some = `{"categories":{"*":{"channels":["fcm"]},"promo":{"channels":[]},"rides":{}}}`
	)
	noon, night := at("2026-01-10T11:00:00Z"), at("2026-01-10T21:00:00Z")
	morning := at("2026-01-11T07:00:00Z")
	for _, c := range []struct {
		says string
		step Step
		want string // start, skip or wait
	}{
		{`{}`, Step{Category: "promo"}, "start"},
		{none, Step{Category: "promo"}, "skip"},
		{none, Step{Category: "promo", High: true}, "skip"},
		{none, Step{Category: "promo", Critical: true}, "start"},
		{none, Step{Category: "rides"}, "start"},
		{none, Step{}, "start"},
		{none, Step{Category: "other"}, "start"},
		{some, Step{Category: "promo"}, "skip"},
		{`{"categories":{"promo":{"channels":["fcm"]}}}`, Step{Category: "promo", Channel: push.APNs}, "skip"},
		{some, Step{Category: "rides", Channel: push.APNs}, "start"},
		{some, Step{Category: "other"}, "start"},
		{some, Step{Category: "other", Channel: push.APNs}, "skip"},
		{some, Step{Channel: push.APNs}, "skip"},
		{some, Step{Category: "*", Channel: push.APNs}, "skip"},
		{some, Step{Channel: push.APNs, Critical: true}, "start"},
		{`{"categories":{"*":{"channels":[]}}}`, Step{High: true}, "skip"},
		{`{` + quiet + `}`, Step{}, "start"},
		{`{` + quiet + `}`, Step{Now: night}, "wait"},
		{`{` + quiet + `}`, Step{Now: night, High: true}, "start"},
		{`{` + quiet + `}`, Step{Now: night, Critical: true}, "start"},
		{`{` + quiet + `}`, Step{Now: night, Expires: morning}, "skip"},
		{`{` + quiet + `}`, Step{Now: night, Expires: morning.Add(1)}, "wait"},
		{`{` + quiet + `}`, Step{Now: morning}, "start"},
		{`{"categories":{"promo":{"channels":[]}},` + quiet + `}`, Step{Now: night, Category: "promo"}, "skip"},
		{`{"categories":{"promo":{"channels":["fcm"]}},` + quiet + `}`, Step{Now: night, Category: "promo"}, "wait"},
		{`{"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Gone/Zone"}`, Step{Now: night}, "start"},
	} {
		if c.step.Channel == "" {
			c.step.Channel = push.FCM
		}
		if c.step.Now.IsZero() {
			c.step.Now = noon
		}
		if c.step.Expires.IsZero() {
			c.step.Expires = c.step.Now.Add(24 * time.Hour)
		}
		v, got := parse(t, c.says).Decide(&c.step), "start"
		switch {
		case v.Skip != "":
			got = "skip"
		case v.Until.Equal(morning):
			got = "wait"
		case !v.Until.IsZero():
			got = "wait until " + v.Until.String()
		}
		if got != c.want {
			t.Errorf("%s, %+v: %s, want %s", c.says, c.step, got, c.want)
		}
	}
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// FuzzDecide checks properties that hold for any preferences.
func FuzzDecide(f *testing.F) {
	f.Add(`{"categories":{"promo":{"channels":[]}}}`, "promo", int64(1_790_000_000), int64(3600), true, false)
	f.Add(`{"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Europe/Oslo"}`, "", int64(1_774_738_800), int64(86400), false, false)
	f.Fuzz(func(t *testing.T, text, category string, now, ttl int64, high, critical bool) {
		var p Preferences
		if json.Unmarshal([]byte(text), &p) != nil || p.Check() != nil || now < 0 || now > 4_000_000_000 || ttl < 1 || ttl > 30*86400 {
			return
		}
		s := &Step{Channel: push.FCM, Category: category, High: high, Critical: critical, Now: time.Unix(now, 0)}
		s.Expires = s.Now.Add(time.Duration(ttl) * time.Second)
		v := p.Decide(s)
		if v.Skip != "" && !v.Until.IsZero() {
			t.Errorf("skipped and put off: %+v", v)
		}
		if critical && v != (Verdict{}) {
			t.Errorf("critical, and yet %+v", v)
		}
		if high && !v.Until.IsZero() {
			t.Errorf("urgent, and yet put off: %+v", v)
		}
		if !v.Until.IsZero() {
			if !v.Until.After(s.Now) || !v.Until.Before(s.Expires) {
				t.Errorf("put off from %s until %s; it expires at %s", s.Now, v.Until, s.Expires)
			}
			s.Now = v.Until
			if again := p.Decide(s); again != (Verdict{}) {
				t.Errorf("put off until %s, and then %+v", v.Until, again)
			}
		}
		all := Preferences{Quiet: p.Quiet, Timezone: p.Timezone}
		if allowed := all.Decide(s); v == (Verdict{}) && allowed.Skip != "" {
			t.Errorf("who lets every channel has it skipped: %+v", allowed)
		}
	})
}

func TestLimits(t *testing.T) {
	for text, want := range map[string]Limit{
		"10/h": {10, time.Hour}, "1/m": {1, time.Minute}, "1000/d": {1000, 24 * time.Hour},
	} {
		l, err := ParseLimit(text)
		if err != nil || l != want || l.String() != text {
			t.Errorf("%s: %+v, %v, written as %s", text, l, err, l)
		}
	}
	for _, text := range []string{"", "10", "0/h", "-1/h", "1001/h", "1.5/h", "10/s", "10/w", "/h", "10/", "+1/h", "10/h "} {
		var bad *notification.FieldError
		if l, err := ParseLimit(text); !errors.As(err, &bad) || bad.Field != "escalate_limit" || !l.IsZero() {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
	b, err := json.Marshal(map[string]Category{"a": {Critical: true}, "b": {Limit: Limit{3, time.Minute}}})
	if err != nil || string(b) != `{"a":{"critical":true},"b":{"escalate_limit":"3/m"}}` {
		t.Errorf("%s, %v", b, err)
	}
	var back map[string]Category
	if err := json.Unmarshal(b, &back); err != nil || back["b"].Limit != (Limit{3, time.Minute}) || !back["a"].Critical {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestCampaignLimits(t *testing.T) {
	for text, want := range map[string]Limit{
		"1/8h": {1, 8 * time.Hour}, "3/d": {3, 24 * time.Hour}, "5/7d": {5, 7 * 24 * time.Hour}, "2/90m": {2, 90 * time.Minute}, "1/24h": {1, 24 * time.Hour},
	} {
		l, err := ParseCampaignLimit(text)
		if err != nil || l != want {
			t.Errorf("%s is %+v, %v", text, l, err)
		}
		var again Limit
		if err := again.UnmarshalText([]byte(l.String())); err != nil || again != l {
			t.Errorf("%s is stored as %s and read as %+v, %v", text, l, again, err)
		}
	}
	for _, text := range []string{"", "1", "1/", "1/8", "0/h", "1001/h", "1/0h", "1/31d", "1/8w", "1/-8h", "1/8hh", "1/99999m", "/h"} {
		var bad *notification.FieldError
		if l, err := ParseCampaignLimit(text); !errors.As(err, &bad) || bad.Field != "campaign_limit" || !l.IsZero() {
			t.Errorf("%q is %+v, %v", text, l, err)
		}
	}
	if _, err := ParseLimit("1/8h"); err == nil {
		t.Error("a step's limit has a period of eight hours")
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add("10/h")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimit(text)
		if err != nil {
			return
		}
		if again, err := ParseLimit(l.String()); err != nil || again != l || l.Count < 1 || l.Count > 1000 || l.Per > MaxPer {
			t.Errorf("%q: %+v, then %+v, %v", text, l, again, err)
		}
	})
}
