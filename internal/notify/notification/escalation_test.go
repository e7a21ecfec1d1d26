package notification_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

func step(channel string, after time.Duration) notification.Step {
	return notification.Step{Channel: channel, After: after}
}

var sms = notification.Step{Channel: "webhook", After: time.Minute, StepOptions: notification.StepOptions{Shown: true, Keep: true, To: "sms"}}

func TestStepsCountFromWhenTheNotificationIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		draft notification.Draft
		want  []notification.Step
	}{
		"none":             {notification.Draft{}, nil},
		"live alone":       {notification.Draft{Ack: notification.AckNone, Escalate: []notification.Step{step("live", 0)}}, nil},
		"live named":       {notification.Draft{Escalate: []notification.Step{step("live", 0), step("fcm", 5*time.Second)}}, []notification.Step{step("fcm", 5*time.Second)}},
		"live not named":   {notification.Draft{Escalate: []notification.Step{step("fcm", 0)}}, []notification.Step{step("fcm", 0)}},
		"two at once":      {notification.Draft{Escalate: []notification.Step{step("fcm", 1), step("apns", 1)}}, []notification.Step{step("fcm", 0), step("apns", 0)}},
		"the same again":   {notification.Draft{Escalate: []notification.Step{step("fcm", 0), step("fcm", time.Minute)}}, []notification.Step{step("fcm", 0), step("fcm", time.Minute)}},
		"just in time":     {notification.Draft{TTL: time.Minute, Escalate: []notification.Step{step("fcm", time.Minute-time.Millisecond)}}, []notification.Step{step("fcm", time.Minute-time.Millisecond)}},
		"from when due":    {notification.Draft{TTL: time.Minute, SendAt: now.Add(time.Hour), Escalate: []notification.Step{step("fcm", 59*time.Second)}}, []notification.Step{step("fcm", 59*time.Second)}},
		"most of them":     {notification.Draft{Escalate: slices.Repeat([]notification.Step{step("fcm", 0)}, 8)}, slices.Repeat([]notification.Step{step("fcm", 0)}, 8)},
		"with options":     {notification.Draft{Escalate: []notification.Step{sms}}, []notification.Step{sms}},
		"asked to be told": {notification.Draft{ReplyBy: time.Hour, Escalate: []notification.Step{step("fcm", time.Minute)}}, []notification.Step{step("fcm", time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := check(c.draft)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(n.Steps, c.want) {
				t.Errorf("steps %v, want %v", n.Steps, c.want)
			}
		})
	}
}

func TestBadStepsNameTheirField(t *testing.T) {
	for name, c := range map[string]struct {
		draft notification.Draft
		field string
	}{
		"too many":              {notification.Draft{Escalate: slices.Repeat([]notification.Step{step("fcm", 0)}, 9)}, "escalate"},
		"no channel":            {notification.Draft{Escalate: []notification.Step{step("live", 0), step("", 0)}}, "escalate[1].channel"},
		"negative":              {notification.Draft{Escalate: []notification.Step{step("fcm", -1)}}, "escalate[0].after"},
		"not in order":          {notification.Draft{Escalate: []notification.Step{step("live", 0), step("fcm", 2), step("apns", 1)}}, "escalate[2].after"},
		"live after a push":     {notification.Draft{Escalate: []notification.Step{step("fcm", 0), step("live", 1)}}, "escalate[1].channel"},
		"live twice":            {notification.Draft{Escalate: []notification.Step{step("live", 0), step("live", 1)}}, "escalate[1].channel"},
		"live later":            {notification.Draft{Escalate: []notification.Step{step("live", 1)}}, "escalate[0].after"},
		"at the expiry":         {notification.Draft{TTL: time.Minute, Escalate: []notification.Step{step("live", 0), step("fcm", time.Minute)}}, "escalate[1].after"},
		"when the reply is due": {notification.Draft{ReplyBy: time.Minute, Escalate: []notification.Step{step("fcm", time.Minute)}}, "escalate[0].after"},
		"longer than can be":    {notification.Draft{Escalate: []notification.Step{step("fcm", 1<<63-1)}}, "escalate[0].after"},
		"live shown":            {notification.Draft{Escalate: []notification.Step{{Channel: "live", StepOptions: notification.StepOptions{Shown: true}}}}, "escalate[0].settle"},
		"live kept":             {notification.Draft{Escalate: []notification.Step{{Channel: "live", StepOptions: notification.StepOptions{Keep: true}}}}, "escalate[0].withdraw"},
		"a target of fcm":       {notification.Draft{Escalate: []notification.Step{{Channel: "fcm", StepOptions: notification.StepOptions{To: "sms"}}}}, "escalate[0].to"},
		"a target's bad name":   {notification.Draft{Escalate: []notification.Step{step("live", 0), {Channel: "webhook", StepOptions: notification.StepOptions{To: "s m s"}}}}, "escalate[1].to"},
		"no ack":                {notification.Draft{Ack: notification.AckNone, Escalate: []notification.Step{step("fcm", 0)}}, "escalate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(c.draft)
			var f *notification.FieldError
			if !errors.As(err, &f) || f.Field != c.field {
				t.Fatalf("got %v, want a complaint about %s", err, c.field)
			}
		})
	}
}
