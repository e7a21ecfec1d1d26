package notification_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
)

func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("[", levels%2) + strings.Repeat("]", levels%2) + strings.Repeat("]}", levels/2)
}

func digits(n int) string { return strings.Repeat("7", n) }

func TestDataThatReceiversCannotReadIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ data, limit string }{
		"64 levels":                    {nested(64), ""},
		"65 levels":                    {nested(65), "64 levels"},
		"65 levels in a list":          {"[1," + nested(64) + "]", "64 levels"},
		"9,000 levels":                 {nested(9000), "64 levels"},
		"30,000 levels":                {nested(30_000), "64 levels"},
		"100 lists beside each other":  {"[" + strings.Repeat("[],", 100) + "[]]", ""},
		"brackets in a string":         {`"` + strings.Repeat(`[\"{`, 100) + `"`, ""},
		"1,000 digits":                 {digits(1000), ""},
		"-1,000 digits in a list":      {"[-" + digits(1000) + "]", ""},
		"1,001 digits":                 {digits(1001), "1000 digits"},
		"a fraction of 1,001 digits":   {`{"a":[1.` + digits(1000) + "]}", "1000 digits"},
		"an exponent of 1,000 digits":  {"[1e" + digits(1000) + "]", "1000 digits"},
		"100,000 digits behind others": {`[{"a":` + digits(900) + `},` + digits(100_000) + "]", "1000 digits"},
		"digits in a string":           {`{"card":"` + digits(5000) + `","a":1}`, ""},
		"digits behind a quote":        {`{"a":"\"` + digits(5000) + `"}`, ""},
		"many numbers":                 {"[" + strings.Repeat(digits(999)+",", 20) + "1]", ""},
		"beyond any double":            {"[1e400,-1e-400]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.data) < 50_000 && !json.Valid([]byte(c.data)) {
				t.Fatal("the case is no JSON")
			}
			for _, contentType := range []string{"application/json", ""} {
				if len(c.data) > 50_000 && contentType == "" {
					continue // not valid JSON for Go, so it is sent as bytes
				}
				_, err := check(notification.Draft{Content: notification.Content{Data: []byte(c.data), ContentType: contentType}})
				var f *notification.FieldError
				switch {
				case c.limit == "" && err != nil:
					t.Fatal(err)
				case c.limit != "" && (!errors.As(err, &f) || f.Field != "data" || !strings.Contains(f.Problem, c.limit)):
					t.Fatalf("got %v, want a complaint that data is beyond %s", err, c.limit)
				}
			}
		})
	}
}

// FuzzJSONLimits compares the quick check with a parser that counts depth and digits.
func FuzzJSONLimits(f *testing.F) {
	f.Add([]byte(nested(65)), uint16(0))
	f.Add([]byte(`{"a":"]\"[","b":[1,2.5e3]}`), uint16(990))
	f.Fuzz(func(t *testing.T, b []byte, more uint16) {
		b = append(append([]byte("["), digits(int(more%2048)+1)...), append(append([]byte(","), b...), ']')...)
		if !json.Valid(b) {
			return
		}
		depth, deepest, longest := 0, 0, 0
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		for {
			tok, err := dec.Token()
			if err != nil {
				break
			}
			switch v := tok.(type) {
			case json.Delim:
				if v == '{' || v == '[' {
					depth++
				} else {
					depth--
				}
				deepest = max(deepest, depth)
			case json.Number:
				longest = max(longest, len(v.String())-strings.Count(v.String(), "-")-strings.Count(v.String(), "+")-strings.Count(strings.ToLower(v.String()), "e")-strings.Count(v.String(), "."))
			}
		}
		within := deepest <= notification.MaxJSONDepth && longest <= notification.MaxJSONDigits
		if err := notification.CheckJSON("data", b); (err == nil) != within {
			t.Fatalf("depth %d, digits %d: %v", deepest, longest, err)
		}
	})
}
