package content_test

import (
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
)

// FuzzSteps decodes arbitrary bytes without harm; accepted ones are the same after they are encoded again.
func FuzzSteps(f *testing.F) {
	steps := []notification.Step{{Channel: "fcm", After: 5 * time.Second}, {Channel: "telegram", After: time.Hour}}
	f.Add(content.EncodeSteps(steps))
	f.Add([]byte(`[{"channel":"fcm","after_ms":-1}]`))
	f.Add([]byte(`[{"channel":"fcm","after_ms":9223372036854775807}]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`[{"channel":"webhook","after_ms":0,"shown":true,"keep":true,"to":"sms"}]`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		steps, err := content.DecodeSteps(stored)
		if err != nil {
			return
		}
		again, err := content.DecodeSteps(content.EncodeSteps(steps))
		if err != nil || !slices.Equal(again, steps) {
			t.Errorf("got %v, %v; want %v", again, err, steps)
		}
	})
}

func TestStepsAreWhatTheyWere(t *testing.T) {
	want := []notification.Step{
		{Channel: "fcm"},
		{Channel: "webpush", After: 1500 * time.Millisecond},
		{Channel: "telegram", After: notification.MaxTTL},
		{Channel: "webhook", StepOptions: notification.StepOptions{Shown: true, Keep: true, To: "sms"}},
	}
	old := []notification.Step{{Channel: "fcm", After: 5 * time.Second}}
	if got, err := content.DecodeSteps([]byte(`[{"channel":"fcm","after_ms":5000}]`)); err != nil || !slices.Equal(got, old) {
		t.Errorf("steps of before there were options are %v, %v", got, err)
	}
	if got, err := content.DecodeSteps(content.EncodeSteps(want)); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "{", "null", "[]", `[{"channel":"","after_ms":1}]`, `[{"channel":"a","after_ms":-1}]`, `[{"channel":"a","after_ms":9999999999999}]`} {
		if got, err := content.DecodeSteps([]byte(bad)); err == nil {
			t.Errorf("%s was read as %v", bad, got)
		}
	}
}
