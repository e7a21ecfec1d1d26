package fcm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
)

// bed is an FCM with one device, and a sender.
type bed struct {
	*testing.T
	server  *fcmserver.Server
	sender  *fcm.Sender
	token   string
	address json.RawMessage
}

func newBed(t *testing.T) *bed {
	t.Helper()
	server, s := start(t, fcmserver.Options{})
	token, address := server.Device(fcmserver.Behaviour{})
	return &bed{t, server, s, token, address}
}

// sent sends a message and returns the message that the device received.
func (b *bed) sent(r push.Request) fcmserver.Message {
	b.Helper()
	r.Address = b.address
	if _, err := b.sender.Send(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	got := b.server.Received(b.token)
	return got[len(got)-1]
}

func full() push.Request {
	return push.Request{
		ID: "d-1", GodwitID: "n-1", Urgency: push.UrgencyHigh, ExpiresAt: time.Now().Add(time.Hour), Track: "signed", AckToken: "ack", Settle: "shown", Collapse: "ride",
		Content: push.Content{
			Title: "<Hi> & bye", Body: "b", Icon: "https://i", Image: "https://p", URL: "https://u?a=1&b=2", Category: "c", Data: json.RawMessage(`{"a":[1]}`),
			FCM: push.FCMContent{ChannelID: "rides", Sound: "default"},
		},
	}
}

func TestAppGetsWhatTheReferenceSays(t *testing.T) {
	b := newBed(t)
	m := b.sent(full())
	want := map[string]string{
		"godwit_id": "n-1", "godwit_track": "signed", "godwit_ack": "ack", "godwit_settle": "shown", "tag": "ride", "title": "<Hi> & bye", "body": "b", "icon": "https://i", "image": "https://p",
		"url": "https://u?a=1&b=2", "category": "c", "channel_id": "rides", "sound": "default", "data": `{"a":[1]}`,
	}
	if fmt.Sprint(m.Data) != fmt.Sprint(want) {
		t.Errorf("data\n%v, want\n%v", m.Data, want)
	}
	if a := m.Android; a.Notification != nil || a.Priority != "HIGH" || a.Collapse != "ride" || a.TTL != "3600s" && a.TTL != "3599s" {
		t.Errorf("android %+v", a)
	}
	aps := m.APNs.Payload.APS
	if aps.Alert == nil || aps.Alert.Title != "<Hi> & bye" || aps.Alert.Body != "b" || aps.Sound != "default" || m.APNs.Headers["apns-priority"] != "10" {
		t.Errorf("apns %+v", m.APNs)
	}
	if n := m.WebPush.Notification; n["title"] != "<Hi> & bye" || n["tag"] != "ride" || m.WebPush.Options.Link != "https://u?a=1&b=2" || m.WebPush.Headers["Urgency"] != "high" {
		t.Errorf("webpush %+v", m.WebPush)
	}
	if m.APNs.Headers["apns-collapse-id"] == "" || m.APNs.Headers["apns-collapse-id"] != m.WebPush.Headers["Topic"] || m.Proto != 2 {
		t.Errorf("apns %v, webpush %v, HTTP/%d", m.APNs.Headers, m.WebPush.Headers, m.Proto)
	}
}

func TestAndroidShowsItItselfWhenAskedTo(t *testing.T) {
	b := newBed(t)
	r, no := full(), false
	r.Collapse, r.Content.FCM.DataOnly = "", &no
	n := b.sent(r).Android.Notification
	if n == nil || n.Title != "<Hi> & bye" || n.Body != "b" || n.Tag != "n-1" || n.ChannelID != "rides" || n.Sound != "default" || n.Image != "https://p" {
		t.Errorf("%+v", n)
	}
	yes := true
	if r.Content.FCM.DataOnly = &yes; b.sent(r).Android.Notification != nil {
		t.Error("data_only shows a notification")
	}
}

// TestWithoutACollapseKeyNothingIsReplaced: such messages are sent without a key, so that FCM stores up to a hundred of them for a device
// that is off. If each had a key, FCM would keep four.
func TestWithoutACollapseKeyNothingIsReplaced(t *testing.T) {
	b := newBed(t)
	m := b.sent(push.Request{ID: "d-1", Content: push.Content{Body: "b"}})
	if m.Android.Collapse != "" || m.Data["tag"] != "" || m.Data["godwit_id"] != "d-1" {
		t.Errorf("%+v", m)
	}
	again := b.sent(push.Request{ID: "d-1", Content: push.Content{Body: "b"}})
	if m.APNs.Headers["apns-collapse-id"] != again.APNs.Headers["apns-collapse-id"] {
		t.Error("an iPhone shows twice what is sent again")
	}
}

func TestTTLIsWhatIsLeftUpToFourWeeks(t *testing.T) {
	b := newBed(t)
	for left, want := range map[time.Duration]string{500 * time.Millisecond: "0s", 90*time.Second + time.Second/2: "90s", 1000 * time.Hour: "2419200s"} {
		r := full()
		r.ExpiresAt = time.Now().Add(left)
		if got := b.sent(r).Android.TTL; got != want && left > time.Second {
			t.Errorf("%s are left: ttl %s, want %s", left, got, want)
		}
	}
	r := full()
	r.ExpiresAt = time.Time{}
	if got := b.sent(r).Android.TTL; got != "86400s" {
		t.Errorf("ttl %s of what does not expire", got)
	}
}

func TestPriorityFollowsUrgency(t *testing.T) {
	b := newBed(t)
	for urgency, want := range map[push.Urgency]string{"": "NORMAL 5", push.UrgencyLow: "NORMAL 5", push.UrgencyNormal: "NORMAL 5", push.UrgencyHigh: "HIGH 10"} {
		r := full()
		r.Urgency = urgency
		m := b.sent(r)
		if got := m.Android.Priority + " " + m.APNs.Headers["apns-priority"]; got != want {
			t.Errorf("%q: %s, want %s", urgency, got, want)
		}
	}
}

func TestTooLargeMessageIsNotSent(t *testing.T) {
	b := newBed(t)
	r := push.Request{ID: "d-1", Address: b.address, Content: push.Content{Body: strings.Repeat("b", fcm.MaxPayload-len("godwit_id"+"d-1"+"body"))}}
	b.sent(r)
	asked := b.server.Counts().Requests
	r.Content.Body += "b"
	var permanent *push.PermanentError
	if _, err := b.sender.Send(t.Context(), r); !errors.As(err, &permanent) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("%v", err)
	}
	no := false
	r.Content.Body, r.Content.FCM.DataOnly = r.Content.Body[:fcm.MaxPayload/2], &no // which is there twice
	if _, err := b.sender.Send(t.Context(), r); !errors.As(err, &permanent) {
		t.Errorf("%v", err)
	}
	if n := b.server.Counts().Requests; n != asked {
		t.Errorf("%d requests for what was too large", n-asked)
	}
}

func TestRecallTellsTheApp(t *testing.T) {
	b := newBed(t)
	r := full()
	sent := b.sent(r)
	r.Address = b.address
	if errs := b.sender.Recall(t.Context(), []push.Sent{{Request: r}}); len(errs) != 1 || errs[0] != nil {
		t.Fatal(errs)
	}
	got := b.server.Received(b.token)
	m := got[len(got)-1]
	if fmt.Sprint(m.Data) != fmt.Sprint(map[string]string{"godwit_recall": "n-1", "tag": "ride"}) {
		t.Errorf("data %v", m.Data)
	}
	if m.Android.Priority != "NORMAL" || m.Android.Collapse != sent.Android.Collapse || m.Android.Notification != nil {
		t.Errorf("android %+v", m.Android)
	}
	if m.APNs.Payload.APS.Background != 1 || m.APNs.Payload.APS.Alert != nil || m.WebPush.Notification != nil || m.WebPush.Headers["Urgency"] != "low" {
		t.Errorf("apns %+v, webpush %+v", m.APNs, m.WebPush)
	}
	if m.Android.TTL == sent.Android.TTL {
		t.Errorf("the recall lives only %s: it may miss a device that has the message", m.Android.TTL)
	}
	b.server.Behave(b.token, fcmserver.Behaviour{Row: fcmserver.Unregistered})
	var gone *push.GoneError
	if errs := b.sender.Recall(t.Context(), []push.Sent{{Request: r}}); !errors.As(errs[0], &gone) {
		t.Error(errs)
	}
}

func TestTheNumberOnTheIconIsSaidAndZeroTakesItAway(t *testing.T) {
	b := newBed(t)
	shown := false
	r := full()
	if m := b.sent(r); m.Data["godwit_badge"] != "" || m.APNs.Payload.APS.Badge != nil {
		t.Errorf("without a number: %v, %+v", m.Data, m.APNs)
	}
	three := 3
	r.Badge, r.Content.FCM.DataOnly = &three, &shown
	if m := b.sent(r); m.Data["godwit_badge"] != "3" || *m.APNs.Payload.APS.Badge != 3 || m.Android.Notification.Count != 3 || m.APNs.Payload.APS.Alert == nil {
		t.Errorf("with a number: %v, %+v, %+v", m.Data, m.APNs, m.Android.Notification)
	}
	alone := push.Request{ID: "badge-1", Badge: new(int), BadgeOnly: true, Collapse: "godwit_badge", Urgency: push.UrgencyNormal}
	m := b.sent(alone)
	if fmt.Sprint(m.Data) != fmt.Sprint(map[string]string{"godwit_badge": "0"}) || m.Android.Notification != nil || m.Android.Priority != "NORMAL" || m.Android.Collapse != "godwit_badge" {
		t.Errorf("a number alone: %v, %+v", m.Data, m.Android)
	}
	if aps := m.APNs.Payload.APS; *aps.Badge != 0 || aps.Background != 1 || aps.Alert != nil || m.APNs.Headers["apns-push-type"] != "alert" || m.APNs.Headers["apns-priority"] != "5" {
		t.Errorf("a number alone, for Apple's phones: %+v", m.APNs)
	}
	r.Recall = true
	if _, err := b.sender.Send(t.Context(), func() push.Request { r.Address = b.address; return r }()); err != nil {
		t.Fatal(err)
	}
	if got := b.server.Received(b.token); got[len(got)-1].Data["godwit_badge"] != "" {
		t.Errorf("a recall says a number: %v", got[len(got)-1].Data)
	}
}

func TestAnOngoingNotificationIsTheAppsToShow(t *testing.T) {
	b := newBed(t)
	r, forty := full(), 40
	r.Content.FCM.Ongoing, r.Content.FCM.ShortText, r.Content.FCM.Progress = true, "5 min", &forty
	m := b.sent(r)
	if m.Data["ongoing"] != "true" || m.Data["short_text"] != "5 min" || m.Data["progress"] != "40" || m.Android.Notification != nil {
		t.Errorf("data %v", m.Data)
	}
	no := false
	r.Content.FCM.DataOnly = &no
	var permanent *push.PermanentError
	r.Address = b.address
	if _, err := b.sender.Send(t.Context(), r); !errors.As(err, &permanent) || len(b.server.Received(b.token)) != 1 {
		t.Errorf("one that Android shows itself: %v", err)
	}
}

func TestAMessageSaysWhereAndroidMayLetItThrough(t *testing.T) {
	b := newBed(t)
	if a := b.sent(full()).Android; a.DirectBoot || a.Satellite || a.Constrained {
		t.Errorf("without being asked: %+v", a)
	}
	for _, set := range []func(c *push.FCMContent){
		func(c *push.FCMContent) { c.DirectBoot = true }, func(c *push.FCMContent) { c.Satellite = true }, func(c *push.FCMContent) { c.Constrained = true },
	} {
		r := full()
		set(&r.Content.FCM)
		want := r.Content.FCM
		a := b.sent(r).Android
		if a.DirectBoot != want.DirectBoot || a.Satellite != want.Satellite || a.Constrained != want.Constrained {
			t.Errorf("asked for %+v, said %+v", want, a)
		}
		r.Recall = true
		if a = b.sent(r).Android; a.DirectBoot != want.DirectBoot || a.Satellite != want.Satellite {
			t.Errorf("a recall does not come where its message came: %+v", a)
		}
	}
}
