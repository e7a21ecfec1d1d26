package dispatch

import (
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// policy has the parameters of sending over a channel.
type policy struct {
	channel push.Channel
	// group is how many deliveries are marked as being sent at once: a crash leaves up to this many, and those in flight, as unknown.
	group int
	// resend: a message with an unknown outcome is sent again, since the channel replaces the first message with the second, or its
	// receiver drops repeated ids. Otherwise it waits until a person decides.
	resend   bool
	inFlight int // requests at once
	// share is how many of these requests one host or credential may have. Even if many hosts hang, some places stay free for others
	// (channelSender.room).
	share int
	// solo: everything goes through one scope, so a sender waits for it instead of looking for others.
	solo    bool
	timeout time.Duration // time limit of one attempt, the sender's own timeout included
}

// policies are the channels of deliveries, in the order for display. A new channel needs a line here: New fails without it.
var policies = []policy{
	{channel: push.Live, group: 50, resend: true, inFlight: 64, share: 64, solo: true, timeout: 30 * time.Second},
	{channel: push.WebPush, group: 50, resend: true, inFlight: 512, share: 256, timeout: 30 * time.Second},
	{channel: push.FCM, group: 50, resend: true, inFlight: 256, share: 256, solo: true, timeout: 60 * time.Second},
	{channel: push.APNs, group: 50, resend: true, inFlight: 256, share: 256, solo: true, timeout: 60 * time.Second},
	{channel: push.Telegram, group: 1, inFlight: 32, share: 32, solo: true, timeout: 30 * time.Second},
	{channel: push.Webhook, group: 10, resend: true, inFlight: 128, share: 32, timeout: 30 * time.Second},
}

// policyOf returns a channel's policy, or nil if there is none.
func policyOf(ch push.Channel) *policy {
	i := slices.IndexFunc(policies, func(p policy) bool { return p.channel == ch })
	if i < 0 {
		return nil
	}
	return &policies[i]
}

// check refuses channels that have no policy.
func check(chs []push.Channel) error {
	for _, ch := range chs {
		switch p := policyOf(ch); {
		case p == nil:
			return fmt.Errorf("channel %s has no policy of sending", ch)
		case p.group < 1 || p.inFlight < 1 || p.share < 1 || p.timeout <= 0:
			return fmt.Errorf("channel %s has a policy of sending that lets nothing through", ch)
		}
	}
	return nil
}

// Channels lists the channels over which deliveries can be sent.
func Channels() []push.Channel {
	chs := make([]push.Channel, len(policies))
	for i := range policies {
		chs[i] = policies[i].channel
	}
	return chs
}

// Resends reports whether a channel's messages with unknown outcomes are sent again.
func Resends(ch push.Channel) bool {
	p := policyOf(ch)
	return p != nil && p.resend
}

// How often and when a message is sent again.
const (
	// A message that fails while others to the same place succeed is given up after a minute.
	maxTries = 6
	// A message that may have arrived is sent at most this many times: a request that hangs once usually hangs again.
	maxUnsure = 3
	// A message that fails because of trouble at the place itself, or because the provider asks for a later attempt, is given up after more
	// than an hour.
	maxTriesInTrouble = 20
	firstRetry        = 2 * time.Second
	lastRetry         = 5 * time.Minute
)

// backoff is the wait after so many attempts. It doubles each time, plus up to a quarter, so that messages that failed together are not
// repeated together. spread is any number of the delivery.
func backoff(attempts int, spread int64) time.Duration {
	d := min(firstRetry<<min(max(attempts-1, 0), 20), lastRetry)
	return d + d/4*time.Duration(uint64(spread)*2654435761%1000)/1000 //nolint:gosec // a hash
}
