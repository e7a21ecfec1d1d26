package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// ActivityMember is the member of a payload that says how Live Activities show the version. It is no part of their state.
const ActivityMember = "godwit_activity"

// Activity says how Live Activities show a version of the object that they follow.
type Activity struct {
	Alert        *Alert
	Priority     string        // high, normal or low; empty: high with an alert, else normal
	StaleAfter   time.Duration // 0: never
	DismissAfter time.Duration // after the end; below 0: as the system likes
	Relevance    *float64
	End          bool
}

// Alert is what a version shows and plays to be noticed.
type Alert struct{ Title, Body, Sound string }

// maxDismiss is the longest time that an activity stays on the lock screen after its end
// (developer.apple.com/documentation/activitykit/displaying-live-data-with-live-activities).
const (
	maxDismiss   = 4 * time.Hour
	maxAlertText = 1024
)

// ParseActivity splits a payload into the state that Live Activities show, and how they show it. Errors are *notification.FieldError.
func ParseActivity(payload []byte) (state json.RawMessage, a Activity, err error) {
	a.DismissAfter = -1
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil || members == nil {
		return nil, a, notification.BadField("payload", "must be a JSON object: it is the content state of Live Activities")
	}
	raw, has := members[ActivityMember]
	if !has {
		return payload, a, nil
	}
	if err := a.read(raw); err != nil {
		return nil, a, err
	}
	delete(members, ActivityMember)
	if state, err = json.Marshal(members); err != nil {
		return nil, a, fmt.Errorf("encode the state: %w", err)
	}
	return state, a, nil
}

// checkActivity checks the member of a payload that has one.
func checkActivity(payload []byte) error {
	if !bytes.Contains(payload, []byte(`"`+ActivityMember+`"`)) {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil || members[ActivityMember] == nil {
		return nil // the word stands elsewhere in the payload
	}
	var a Activity
	return a.read(members[ActivityMember])
}

func (a *Activity) read(raw json.RawMessage) error {
	const in = "payload." + ActivityMember
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return notification.BadField(in, "must be an object")
	}
	for name, v := range members {
		field := in + "." + name
		var err error
		switch name {
		case "alert":
			a.Alert, err = readAlert(field, v)
		case "priority":
			err = text(field, v, &a.Priority)
			if p := a.Priority; err == nil && p != "high" && p != "normal" && p != "low" {
				err = notification.BadField(field, "%.40q is none of high, normal, low", p)
			}
		case "stale_after":
			if a.StaleAfter, err = duration(field, v); err == nil && a.StaleAfter == 0 {
				err = notification.BadField(field, "must be positive")
			}
		case "dismiss_after":
			if a.DismissAfter, err = duration(field, v); err == nil && a.DismissAfter > maxDismiss {
				err = notification.BadField(field, "is more than 4 hours, the longest that an activity stays after its end")
			}
		case "relevance_score":
			a.Relevance = new(float64)
			if json.Unmarshal(v, a.Relevance) != nil || *a.Relevance < 0 {
				err = notification.BadField(field, "must be a number of 0 or more")
			}
		case "end":
			if json.Unmarshal(v, &a.End) != nil {
				err = notification.BadField(field, "must be true or false")
			}
		default:
			err = notification.BadField(notification.Clip(field), "is not a known field")
		}
		if err != nil {
			return err
		}
	}
	if _, says := members["dismiss_after"]; says && !a.End {
		return notification.BadField(in+".dismiss_after", "counts from the end of the activity: set end as well")
	}
	return nil
}

func readAlert(field string, raw json.RawMessage) (*Alert, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, notification.BadField(field, "must be an object with title and body")
	}
	a := new(Alert)
	into := map[string]*string{"title": &a.Title, "body": &a.Body, "sound": &a.Sound}
	for name, v := range members {
		to := into[name]
		if to == nil {
			return nil, notification.BadField(notification.Clip(field+"."+name), "is not a known field")
		}
		if err := text(field+"."+name, v, to); err != nil {
			return nil, err
		}
	}
	if a.Title == "" || a.Body == "" {
		return nil, notification.BadField(field, "needs a title and a body: an Apple Watch shows them in place of the activity")
	}
	return a, nil
}

func text(field string, raw json.RawMessage, to *string) error {
	if json.Unmarshal(raw, to) != nil || !utf8.ValidString(*to) {
		return notification.BadField(field, "must be a text")
	}
	if len(*to) > maxAlertText {
		return notification.BadField(field, "has %d bytes; at most %d are allowed", len(*to), maxAlertText)
	}
	return nil
}

// duration reads "30s", or a number of seconds.
func duration(field string, raw json.RawMessage) (time.Duration, error) {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	d, err := notification.ParseDuration(s)
	if err == nil && d > notification.MaxTTL {
		err = errors.New("is more than 30 days")
	}
	if err != nil {
		return 0, notification.BadField(field, "%s", err)
	}
	return d, nil
}
