package admin

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

func TestTheQuestionBeforeASendSaysWhomItReachesAndForHowLong(t *testing.T) {
	over := audience.Audience{Channels: []push.Channel{push.Telegram, push.WebPush}}
	for _, c := range []struct {
		spec campaign.Spec
		n    reached
		want string
	}{
		{campaign.Spec{}, reached{}, "It reaches nobody now. Start it all the same?"},
		{campaign.Spec{}, reached{Count: 1}, "Send it to 1 address?"},
		{campaign.Spec{Audience: over}, reached{Count: 1204}, "Send it to 1,204 addresses over Telegram, Browsers?"},
		{campaign.Spec{Audience: over, Rate: 30}, reached{Count: 1204}, "Send it to 1,204 addresses over Telegram, Browsers, about 40 s at 30 a second?"},
		{campaign.Spec{Rate: 0.5}, reached{Count: 1_000_000}, "Send it to 1,000,000 addresses, about 23 days at 0.5 a second?"},
		{campaign.Spec{Rate: 100}, reached{Count: 100_000}, "Send it to 100,000 addresses, about 16 minutes at 100 a second?"},
		{campaign.Spec{Rate: 100}, reached{Count: 5}, "Send it to 5 addresses, about 50 ms at 100 a second?"},
		{campaign.Spec{Rate: 100}, reached{Count: 0, Looked: 9}, "Send it to at least 0 addresses?"},
		{campaign.Spec{Spread: campaign.Duration(2 * time.Hour)}, reached{Count: 7, Looked: 9}, "Send it to at least 7 addresses, within 2 hours?"},
	} {
		if got := question(&c.spec, c.n); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
