package dispatch

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// policyOf is a channel's policy, nil if there is none.
func policyOf(ch push.Channel) *push.Policy {
	if d := ch.Find(); d != nil {
		return &d.Policy
	}
	return nil
}

// check refuses channels that there are not.
func check(chs []push.Channel) error {
	for _, ch := range chs {
		if policyOf(ch) == nil {
			return fmt.Errorf("channel %s has no policy of sending", ch)
		}
	}
	return nil
}

// Resends reports whether a channel's unknown outcomes are sent again.
func Resends(ch push.Channel) bool {
	p := policyOf(ch)
	return p != nil && p.Resend
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
	return d + d/4*time.Duration(uint64(spread)*2654435761%1000)/1000 // a hash
}
