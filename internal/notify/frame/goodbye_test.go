package frame

import (
	"regexp"
	"strconv"
	"testing"
	"time"
)

func TestGoodbyesHaveAnOutlook(t *testing.T) {
	for _, c := range []struct {
		g    Goodbye
		want Outlook
	}{
		{Goodbye{Reason: Shutdown, RetryAfter: time.Second}, Elsewhere},
		{Goodbye{Reason: StoreAway, RetryAfter: time.Second}, Elsewhere},
		{Goodbye{Reason: RateLimited, RetryAfter: time.Second}, Later},
		{Goodbye{Reason: Full, RetryAfter: time.Second}, Later},
		{Goodbye{Reason: AuthUnavailable, RetryAfter: time.Second}, Later},
		{Goodbye{Reason: TooManySessions, RetryAfter: time.Second}, Later},
		{Goodbye{Reason: "heartbeat_timeout"}, Later},
		{Goodbye{Reason: "disconnected"}, Later},
		{Goodbye{Reason: "said by a later release"}, Later},
		{Goodbye{Reason: Replaced}, Pointless},
		{Goodbye{Reason: Erased}, Pointless},
		{Goodbye{Reason: Left}, Pointless},
		{Goodbye{Reason: "unauthenticated", Refusal: true}, Never},
		{Goodbye{Reason: "token_expired", Refusal: true}, Never},
	} {
		if got := c.g.Outlook(); got != c.want {
			t.Errorf("the outlook of %s is %d, want %d", c.g.Reason, got, c.want)
		}
	}
}

var retryLine = regexp.MustCompile(`(?m)^retry: (\d+)$`)

// retryOf returns the time in the only retry line of an event.
func retryOf(t *testing.T, event []byte) time.Duration {
	t.Helper()
	m := retryLine.FindAllSubmatch(event, -1)
	if len(m) != 1 {
		t.Fatalf("%q has %d retry lines, want one", event, len(m))
	}
	ms, err := strconv.Atoi(string(m[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

func TestGoodbyesTellAnEventSourceWhenToComeBack(t *testing.T) {
	if got := retryOf(t, AppendGoodbye(nil, SSE, Goodbye{Reason: Shutdown, RetryAfter: 1500 * time.Millisecond})); got != 1500*time.Millisecond {
		t.Errorf("retry after a stop is %s, want the goodbye's 1.5s", got)
	}
	if got := retryOf(t, AppendGoodbye(nil, SSE, Goodbye{Reason: Replaced})); got < time.Hour {
		t.Errorf("a replaced page comes back after %s and replaces the other; want an hour", got)
	}
	for _, event := range [][]byte{
		AppendGoodbye(nil, SSE, Goodbye{Reason: "heartbeat_timeout"}),
		AppendWelcome(nil, SSE, &Welcome{Session: "s"}), // replaces the time that an earlier goodbye has set
	} {
		if got := retryOf(t, event); got < comeBackMost/2 || got > comeBackMost {
			t.Errorf("%q: retry is %s", event, got)
		}
	}
}
