package campaignrow

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// TestNumbersOfChannelsStay fails if a number changes: existing files contain the numbers.
func TestNumbersOfChannelsStay(t *testing.T) {
	want := map[push.Channel]int16{push.Live: 1, push.WebPush: 2, push.Telegram: 3, push.Webhook: 4, push.FCM: 5, push.APNs: 6, push.LiveActivityStart: 7, push.LiveActivity: 8}
	for ch, number := range want {
		if got := Channel(ch); got != number || ChannelOf(number) != ch {
			t.Errorf("%s is %d and %d is %s", ch, got, number, ChannelOf(number))
		}
	}
	if got := AllChannels(); got != "1, 2, 5, 6, 7, 8, 3, 4" {
		t.Errorf("all are %s", got)
	}
	if Channel("smoke") != 0 || ChannelOf(0) != "" || ChannelOf(-1) != "" || ChannelOf(9) != "" {
		t.Error("a channel that there is not has a number, or a number without a channel one")
	}
}

func TestADayCountsWhatHasEnded(t *testing.T) {
	var c Tally
	c.Move(2, 1, campaign.Sending, campaign.Accepted)
	c.Move(2, 3, campaign.Sending, campaign.Accepted)
	c.Move(1, 1, campaign.Pending, campaign.Sending)
	c.Move(1, 1, campaign.Unknown, campaign.Pending)
	c.Add(1, 1, Reactions+int16(campaign.Clicked), 1)
	c.Add(1, 1, Unrecalled, -1)
	c.Add(1, 3, Corrected, 1)
	want := []Change{{Count{1, 0, Reactions + int16(campaign.Clicked)}, 1}, {Count{2, 0, int16(campaign.Accepted)}, 2}}
	if got := c.OfDay(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	changes := c.Changes()
	if !slices.IsSortedFunc(changes, func(a, b Change) int {
		return int(100*(a.Campaign-b.Campaign)) + int(10*(a.Channel-b.Channel)) + int(a.What-b.What)
	}) {
		t.Errorf("not in the order of keys: %v", changes)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.By == 0 }) {
		t.Errorf("counters that do not change: %v", changes)
	}
}

func TestADeliveryIsHeldOrDue(t *testing.T) {
	for due, want := range map[int64]campaign.Delivery{Held: {Held: true}, 5: {Due: time.UnixMilli(5).UTC()}, 0: {}} {
		var d campaign.Delivery
		if Delivery(&d, 0, due); d != want {
			t.Errorf("due %d is %+v", due, d)
		}
	}
	d := campaign.Delivery{Outcome: campaign.Accepted, Detail: "too late"}
	Delivery(&d, Unsure|NotRecalled|Reaction(campaign.Dismissed), 5)
	if want := (campaign.Delivery{Outcome: campaign.Accepted, Recall: "too late", Unsure: true, Dismissed: true}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

func TestPlacesAreReadAsTheyWereWritten(t *testing.T) {
	at := time.UnixMilli(5_000).UTC()
	for _, p := range []campaign.Place{
		{Due: at},
		{Group: campaign.GroupA, Due: at},
		{Group: campaign.GroupB},
		{Group: campaign.Rest, Due: at},
		{Group: campaign.Rest, Waits: true},
		{Group: campaign.Rest, Waits: true, After: 7 * 24 * time.Hour},
	} {
		due, flags := Placed(p)
		d := campaign.Delivery{}
		Delivery(&d, flags|Unsure|NotCorrected, due)
		if d.Group != p.Group || d.Waits != p.Waits || d.Held || !d.Due.Equal(p.Due) || GroupOf(flags) != p.Group {
			t.Errorf("%+v is read as %+v", p, d)
		}
		if p.Waits && due-Waiting != p.After.Milliseconds() {
			t.Errorf("%+v waits for %d", p, due-Waiting)
		}
	}
}
