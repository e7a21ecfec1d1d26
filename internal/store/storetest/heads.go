package storetest

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// heads reads the heads of these recipients in one call.
func (e *env) heads(to ...string) []mailbox.Head {
	e.Helper()
	of := make([]mailbox.Address, len(to))
	for i, r := range to {
		of[i] = mailbox.Address{App: App, Recipient: r}
	}
	heads, err := e.s.Heads(e.Context(), of)
	if err != nil || len(heads) != len(of) {
		e.Fatalf("heads of %q: %d of them, %v", to, len(heads), err)
	}
	return heads
}

// wantHead checks a recipient's head. A store need not report the newest seq of a mailbox without pending copies.
func (e *env) wantHead(to string, last uint64, waits bool) {
	e.Helper()
	h := e.heads(to)[0]
	if h.Waits != waits || h.LastSeq != last && (waits || h.LastSeq != 0) {
		e.Errorf("the head of %s is %+v, want newest seq %d, waits %t", to, h, last, waits)
	}
	if res := e.pending(mailbox.PendingQuery{Recipient: to}); len(res.Items) > 0 != waits {
		e.Errorf("%d notifications of %s are pending, and its head says that something waits: %t", len(res.Items), to, h.Waits)
	}
}

var headCases = []testCase{
	{"AHeadSaysWhetherSomethingWaits", nil, func(e *env) {
		e.wantHead("r", 0, false)
		e.stored(e.note("a"), "r", "s")
		e.stored(e.note("b"), "r")
		e.wantHead("r", 2, true)
		e.wantHead("s", 1, true)
		e.acked("s", "a")
		e.wantHead("s", 1, false)
		e.acked("r", "a")
		e.wantHead("r", 2, true)
		e.reopen()
		e.wantHead("r", 2, true)
		e.wantHead("s", 1, false)
		e.stored(e.note("c"), "s")
		e.wantHead("s", 2, true)
	}},
	{"AHeadFollowsWhatIsDueAndWhatHasExpired", nil, func(e *env) {
		e.stored(e.note("brief", ttl(5*time.Second)), "r")
		e.stored(e.note("later", sendAfter(20*time.Second, time.Minute)), "r")
		e.wantHead("r", 1, true)
		e.clock.Advance(5 * time.Second)
		e.wantHead("r", 1, false) // even before a sweep has ended it
		e.clock.Advance(15 * time.Second)
		e.due()
		e.wantHead("r", 2, true)
	}},
	{"HeadsOfManyComeInTheOrderAsked", nil, func(e *env) {
		var to []string
		for i := range 3000 {
			to = append(to, fmt.Sprint("r", i))
		}
		for i := 0; i < len(to); i += 500 {
			e.stored(e.note(to[i], priority(notification.Low)), to[i])
		}
		for i, h := range e.heads(to...) {
			if h.Waits != (i%500 == 0) {
				e.Errorf("something waits for %s: %t", to[i], h.Waits)
			}
		}
		if h, err := e.s.Heads(e.Context(), []mailbox.Address{{App: "other", Recipient: "r0"}}); err != nil || h[0].Waits {
			e.Errorf("of another app's r0: %+v, %v", h, err)
		}
	}},
}
