package admin

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

func TestTheQuestionBeforeASendSaysWhomItReachesAndForHowLong(t *testing.T) {
	paces := map[push.Channel]float64{push.Telegram: 28.8}
	over := func(n ...reachedOver) []reachedOver { return n }
	chats, pages := reachedOver{push.Telegram, 1204}, reachedOver{push.WebPush, 2000}
	for _, c := range []struct {
		o    outlook
		want string
	}{
		{outlook{}, "It reaches nobody now. Start it all the same?"},
		{outlook{reached: reached{Count: 1}, By: over(reachedOver{push.Webhook, 1})}, "Send it to 1 address over Webhook?"},
		{outlook{reached: reached{Count: 1204}, By: over(chats)}, "Send it to 1,204 addresses over Telegram, about 41 s?"},
		{outlook{reached: reached{Count: 3204}, By: over(chats, pages)}, "Send it to 3,204 addresses: 1,204 over Telegram, 2,000 over Browsers?"},
		{outlook{reached: reached{Count: 3204}, By: over(chats, pages), Rate: 30}, "Send it to 3,204 addresses: 1,204 over Telegram, 2,000 over Browsers, about 106 s at 30 a second?"},
		{outlook{reached: reached{Count: 1204}, By: over(chats), Rate: 100}, "Send it to 1,204 addresses over Telegram, about 41 s at 100 a second?"},
		{outlook{reached: reached{Count: 1_000_000}, By: over(reachedOver{push.WebPush, 1_000_000}), Rate: 0.5}, "Send it to 1,000,000 addresses over Browsers, about 23 days at 30 a minute?"},
		{outlook{reached: reached{Looked: 9}, Rate: 100}, "Send it to at least 0 addresses?"},
		{outlook{reached: reached{Count: 7, Looked: 9}, Spread: 2 * time.Hour}, "Send it to at least 7 addresses, within 2 hours?"},
	} {
		c.o.estimate(&campaign.Spec{Rate: c.o.Rate}, paces)
		if got := c.o.question(words.English); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
