package clickhouse

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/feeds/event"
)

func FuzzRow(f *testing.F) {
	f.Add("n-1", "driver-42", "no \xff token\x00 \U0001F926 \"quoted\"\\ <&>\u2028", int64(1_795_451_225_123), uint64(7), 3, int64(40), true)
	f.Add("", "", "", int64(0), uint64(1<<63), 0, int64(1<<40), false)
	f.Fuzz(func(t *testing.T, note, to, detail string, at int64, id uint64, step int, took int64, known bool) {
		e := event.Event{
			App: "shop", ID: id, Type: event.StepFailed, At: time.UnixMilli(at % 1e14), Note: note, To: to, Channel: "fcm", Step: step, Detail: detail, Reconciled: known,
			Took: time.Duration(took) * time.Millisecond, TookKnown: known,
		}
		line := appendRow(nil, &e, &second{})
		if !utf8.Valid(line) || strings.IndexByte(string(line), '\n') != len(line)-1 {
			t.Fatalf("%q is no line of UTF-8", line)
		}
		var got struct {
			App, Type, ID, Recipient, Channel, Detail, At string
			EventID                                       uint64 `json:"event_id"`
			Step                                          int
			Reconciled                                    bool
			LatencyMS                                     *int64 `json:"latency_ms"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		clean := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
		same := func(got, want string) bool {
			return got == want || clean(want) != want && strings.ContainsRune(got, '\ufffd')
		}
		if got.App != "shop" || got.EventID != id || got.Type != "step_failed" || got.Step != step || got.Reconciled != known || got.Channel != "fcm" ||
			!same(got.ID, note) || !same(got.Recipient, to) || !same(got.Detail, detail) || (got.LatencyMS != nil) != known {
			t.Errorf("%q is %+v", line, got)
		}
		if when, err := time.Parse(time.RFC3339, got.At); err == nil && when.UnixMilli() != e.At.UnixMilli() {
			t.Errorf("%s is not %s", got.At, e.At)
		}
	})
}
