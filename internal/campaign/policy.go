package campaign

import (
	"time"

	"godwit.dev/godwit/internal/push"
)

// policy is how a channel is sent to.
type policy struct {
	// group is how many deliveries are marked as being sent at once: a crash leaves up to this many, and those in
	// flight, as unknown.
	group int
	// resend: an unknown outcome is sent again, since the channel replaces the first message by the second or its
	// receiver drops repeated ids. Otherwise it is parked until a person decides.
	resend   bool
	inFlight int // requests at once
	// solo: everything goes through one scope, so the lane waits for it instead of looking for others.
	solo    bool
	timeout time.Duration // how long one attempt may take, the sender's own timeout included
}

var policies = map[push.Channel]policy{
	push.Live:     {group: 50, resend: true, inFlight: 64, solo: true, timeout: 30 * time.Second},
	push.WebPush:  {group: 50, resend: true, inFlight: 256, timeout: 30 * time.Second},
	push.Telegram: {group: 1, inFlight: 32, solo: true, timeout: 30 * time.Second},
	push.Webhook:  {group: 10, resend: true, inFlight: 64, timeout: 30 * time.Second},
}

// Channels are those that campaigns can be sent over.
func Channels() []push.Channel {
	return []push.Channel{push.Live, push.WebPush, push.Telegram, push.Webhook}
}

// resending lists the channels whose unknown outcomes are sent again.
func resending() (chs []push.Channel) {
	for _, ch := range Channels() {
		if policies[ch].resend {
			chs = append(chs, ch)
		}
	}
	return chs
}

// How often and when a message is tried again.
const (
	// A message that fails while others to the same place go through is given up after a minute.
	maxTries = 6
	// One that may have arrived is not sent more often than this: what hangs once mostly hangs again.
	maxUnsure = 3
	// When the place itself has trouble, or says when to come back, after more than an hour.
	maxTriesInTrouble = 20
	firstRetry        = 2 * time.Second
	lastRetry         = 5 * time.Minute
)

// backoff is how long to wait after so many attempts: doubling, with up to a quarter more so that what failed
// together does not come back together. spread is any number of the delivery.
func backoff(attempts int, spread int64) time.Duration {
	d := min(firstRetry<<min(max(attempts-1, 0), 20), lastRetry)
	return d + d/4*time.Duration(uint64(spread)*2654435761%1000)/1000 //nolint:gosec // a hash
}
