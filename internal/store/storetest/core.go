package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
)

var coreCases = []testCase{
	{"PendingComesByPriorityThenSeq", nil, func(e *env) {
		e.stored(e.note("n1"), "r")
		e.stored(e.note("l1", priority(notification.Low)), "r")
		e.stored(e.note("h1", priority(notification.High)), "r")
		e.stored(e.note("n2"), "r")
		e.stored(e.note("h2", priority(notification.High)), "r")
		items := e.wantPending("r", "h1", "h2", "n1", "n2", "l1")
		for i, want := range []uint64{3, 5, 1, 4, 2} {
			if items[i].Seq != want {
				e.Errorf("%s has seq %d, want %d", items[i].N.ID, items[i].Seq, want)
			}
		}
		if res := e.pending(mailbox.PendingQuery{Recipient: "r"}); res.LastSeq != 5 || res.More {
			e.Errorf("last seq %d, more %t; want 5 and no more", res.LastSeq, res.More)
		}
	}},
	{"PendingLeavesOutWhatTheSessionHasAndWhatIsBeyondTheLimit", nil, func(e *env) {
		for i := range 6 {
			e.stored(e.note(fmt.Sprint("n", i)), "r")
		}
		all := e.wantPending("r", "n0", "n1", "n2", "n3", "n4", "n5")
		have := []int64{all[0].Pos, all[2].Pos}
		res := e.pending(mailbox.PendingQuery{Recipient: "r", Have: have, Limit: 2})
		wantIDs(e, "limited", itemIDs(res.Items), []string{"n1", "n3"})
		if !res.More || res.LastSeq != 6 {
			e.Errorf("more %t, last seq %d; want more, and the newest seq although it was left out", res.More, res.LastSeq)
		}
		res = e.pending(mailbox.PendingQuery{Recipient: "r", Have: have, Limit: 4})
		if len(res.Items) != 4 || res.More {
			e.Errorf("%d items, more %t; want the last 4 and no more", len(res.Items), res.More)
		}
	}},
	{"PendingStopsAfterSoManyBytes", nil, func(e *env) {
		for i := range 4 {
			e.stored(e.note(fmt.Sprint("n", i), title(strings.Repeat("x", 1000))), "r", "s")
		}
		for bytes, n := range map[int]int{1: 1, 1500: 2, 3500: 4, 0: 4} {
			for _, to := range []string{"r", "s"} {
				res := e.pending(mailbox.PendingQuery{Recipient: to, Bytes: bytes})
				if len(res.Items) != n || res.More != (n < 4) || res.LastSeq != 4 {
					e.Errorf("within %d bytes %d items, more %t, last seq %d; want %d items", bytes, len(res.Items), res.More, res.LastSeq, n)
				}
			}
		}
	}},
	{"AnItemCarriesTheWholeNotification", nil, func(e *env) {
		n := e.note("full", priority(notification.High), ack(notification.AckAll), collapse("key"))
		e.stored(n, "r")
		e.reopen()
		got := e.wantPending("r", "full")[0]
		c, w := got.N.Content, n.Content
		if c.Title != w.Title || c.Body != w.Body || c.Category != w.Category || string(c.Data) != string(w.Data) || c.ContentType != w.ContentType {
			e.Errorf("content %+v, want %+v", c, w)
		}
		if got.N.App != App || got.N.Priority != n.Priority || got.N.Ack != n.Ack || got.N.CollapseKey != "key" ||
			!got.N.CreatedAt.Equal(n.CreatedAt) || !got.N.ExpiresAt.Equal(n.ExpiresAt) || !got.N.SendAt.IsZero() || got.Recipient != "r" {
			e.Errorf("got %+v, want %+v", got.N, n)
		}
	}},
	{"SeqCountsPerRecipientFromOneAndSurvivesReopening", nil, func(e *env) {
		e.stored(e.note("a"), "r1", "r2")
		e.stored(e.note("b"), "r2")
		e.acked("r2", "a")
		e.acked("r2", "b")
		e.reopen()
		e.stored(e.note("c"), "r1", "r2", "r3")
		want := map[string]uint64{"r1": 2, "r2": 3, "r3": 1}
		for to, seq := range want {
			res := e.pending(mailbox.PendingQuery{Recipient: to})
			if got := res.Items[len(res.Items)-1].Seq; got != seq || res.LastSeq != seq {
				e.Errorf("%s: seq %d, last %d; want %d", to, got, res.LastSeq, seq)
			}
		}
	}},
	{"TheObserverIsToldInCommitOrderBeforeAppendReturns", nil, func(e *env) {
		n := e.note("x")
		e.stored(n, "r1", "r2")
		got := e.rec.All().Stored
		if len(got) != 2 || got[0].N != n || got[0].Recipient != "r1" || got[1].Recipient != "r2" || got[0].Seq != 1 {
			e.Fatalf("the observer saw %+v", got)
		}
		e.acked("r1", "x")
		settled := e.rec.All().Settled
		if len(settled) != 1 || settled[0].ID != "x" || settled[0].Recipient != "r1" || settled[0].As != notification.Acked || settled[0].Pos != got[0].Pos {
			e.Errorf("the observer saw %+v settled", settled)
		}
	}},
	{"AppendAndSettleReturnOnlyAfterTheObserver", nil, func(e *env) {
		e.rec.slow(20 * time.Millisecond)
		e.stored(e.note("x"), "r")
		if n := len(e.rec.All().Stored); n != 1 {
			e.Error("append returned before the observer did")
		}
		e.acked("r", "x")
		if n := len(e.rec.All().Settled); n != 1 {
			e.Error("settle returned before the observer did")
		}
	}},
	{"SeqOutlivesTheMemoryOfIdleRecipients", nil, func(e *env) {
		var to []string
		for i := range 50 {
			to = append(to, fmt.Sprint("r", i))
		}
		for round := range 4 {
			id := fmt.Sprint("n", round)
			e.stored(e.note(id), to...)
			var acks []*mailbox.Settle
			for _, r := range to {
				acks = append(acks, &mailbox.Settle{App: App, Recipient: r, ID: id, As: notification.Acked, At: e.clock.Now()})
			}
			if err := e.s.Settle(e.Context(), acks); err != nil {
				e.Fatal(err)
			}
		}
		seqs := map[string]uint64{}
		for _, it := range e.rec.All().Stored {
			if seqs[it.Recipient]++; it.Seq != seqs[it.Recipient] {
				e.Fatalf("%s of %s has seq %d, want %d", it.N.ID, it.Recipient, it.Seq, seqs[it.Recipient])
			}
		}
		if res := e.pending(mailbox.PendingQuery{Recipient: "r7"}); res.LastSeq != 4 {
			e.Errorf("last seq %d, want 4", res.LastSeq)
		}
	}},
	{"AListIsStoredForEveryRecipientAndSettledOneByOne", nil, func(e *env) {
		var to []string
		for i := range 1000 {
			to = append(to, fmt.Sprint("r", i))
		}
		e.stored(e.note("list"), to...)
		for _, r := range to[:999] {
			q := &mailbox.Settle{App: App, Recipient: r, ID: "list", As: notification.Acked, At: e.clock.Now()}
			e.s.SettleLater([]*mailbox.Settle{q})
		}
		eventually.True(e, "settling all but one", func() bool { return e.s.Stats().Pending == 1 })
		e.reopen()
		if it := e.wantPending("r999", "list")[0]; string(it.N.Content.Data) != `{"k":1}` {
			e.Errorf("the last copy lost its content: %q", it.N.Content.Data)
		}
		e.acked("r999", "list")
	}},
	{"ARecipientNamedTwiceGetsOneCopy", nil, func(e *env) {
		res := e.publish(e.note("x"), "r", "s", "r")
		if res[0].Duplicate || res[1].Duplicate || !res[2].Duplicate {
			e.Errorf("results %+v, want the third to be a duplicate", res)
		}
		e.wantPending("r", "x")
	}},
	{"AFullMailboxRefusesMoreAndOthersAreNotHurt", nil, func(outer *env) {
		e := newEnv(outer.T, outer.open, Options{MaxPending: 3})
		for i := range 3 {
			e.stored(e.note(fmt.Sprint("n", i)), "r")
		}
		res := e.publish(e.note("n3"), "r", "s")
		if !errors.Is(res[0].Err, mailbox.ErrFull) || res[1].Err != nil {
			e.Fatalf("results %+v, want the first to be full and the second stored", res)
		}
		e.wantPending("s", "n3")
		e.reopen()
		if res := e.publish(e.note("n4"), "r"); !errors.Is(res[0].Err, mailbox.ErrFull) {
			e.Errorf("after reopening: %v, want full", res[0].Err)
		}
		e.acked("r", "n1")
		e.stored(e.note("n5"), "r")
		e.wantPending("r", "n0", "n2", "n5")
	}},
	{"AppsNeverMeet", nil, appsNeverMeet},
	{"ManyRecipientsAreAnsweredAtOnce", nil, func(e *env) {
		var qs []mailbox.PendingQuery
		var batch []*mailbox.Append
		for i := range 700 {
			to := fmt.Sprint("r", i)
			if i%3 != 0 {
				batch = append(batch, &mailbox.Append{N: e.note(fmt.Sprint("n", i)), To: []string{to}})
			}
			qs = append(qs, mailbox.PendingQuery{App: App, Recipient: to, Limit: 5})
		}
		e.storedAtOnce(batch...)
		res, err := e.s.Pending(e.Context(), qs)
		if err != nil || len(res) != len(qs) {
			e.Fatalf("%d answers, %v", len(res), err)
		}
		for i := range res {
			want := []string{fmt.Sprint("n", i)}
			if i%3 == 0 {
				want = nil
			}
			wantIDs(e, qs[i].Recipient, itemIDs(res[i].Items), want)
		}
	}},
	{"ItemsAreReadByPositionUntilSettledOrExpired", nil, func(e *env) {
		e.stored(e.note("a"), "r", "s")
		e.stored(e.note("b"), "r")
		e.stored(e.note("c", ttl(1e9)), "r")
		e.stored(e.note("d", sendAfter(1e9, 1e9)), "r")
		at := map[string]int64{}
		for _, it := range e.rec.All().Stored {
			at[it.N.ID+it.Recipient] = it.Pos
		}
		e.acked("r", "b")
		e.clock.Advance(1e9)
		refs := []mailbox.Ref{
			{App: App, Recipient: "r", Pos: at["ar"]},
			{App: App, Recipient: "r", Pos: at["as"]},
			{App: "other", Recipient: "r", Pos: at["ar"]},
			{App: App, Recipient: "r", Pos: at["br"]},
			{App: App, Recipient: "r", Pos: at["cr"]},
			{App: App, Recipient: "r", Pos: at["dr"]},
			{App: App, Recipient: "r", Pos: 1 << 40},
			{App: App, Recipient: "s", Pos: at["as"]},
		}
		items, err := e.s.Items(e.Context(), refs)
		if err != nil {
			e.Fatal(err)
		}
		for i, it := range items {
			there := refs[i] == refs[0] || i == 7 // the same position may exist for this recipient, too
			if (it != nil) != there {
				e.Errorf("item %d: %+v, want it there: %t", i, it, there)
			} else if there && (it.N.ID != "a" || it.Pos != refs[i].Pos || it.Seq != 1) {
				e.Errorf("item %d: %+v", i, it)
			}
		}
	}},
	{"ACancelledCallStoresNothing", nil, func(e *env) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		a := &mailbox.Append{N: e.note("x"), To: []string{"r"}}
		if err := e.s.Append(ctx, []*mailbox.Append{a}); !errors.Is(err, context.Canceled) {
			e.Errorf("append: %v, want cancelled", err)
		}
		e.wantPending("r")
	}},
	{"AClosedStoreSaysSo", nil, func(e *env) {
		e.o.Reopen() // closes the store e.s
		a := &mailbox.Append{N: e.note("x"), To: []string{"r"}}
		if err := e.s.Append(e.Context(), []*mailbox.Append{a}); !errors.Is(err, mailbox.ErrClosed) {
			e.Errorf("append: %v, want ErrClosed", err)
		}
		q := &mailbox.Settle{App: App, Recipient: "r", ID: "x", As: notification.Acked, At: e.clock.Now()}
		if err := e.s.Settle(e.Context(), []*mailbox.Settle{q}); !errors.Is(err, mailbox.ErrClosed) {
			e.Errorf("settle: %v, want ErrClosed", err)
		}
		e.s.SettleLater([]*mailbox.Settle{q})
		if _, err := e.s.Pending(e.Context(), []mailbox.PendingQuery{{App: App, Recipient: "r"}}); err != nil && !errors.Is(err, mailbox.ErrClosed) {
			e.Errorf("pending: %v", err)
		}
		if err := e.s.Ready(e.Context()); err == nil {
			e.Error("a closed store says that it is ready")
		}
	}},
	{"PublishersAndAcksAtOnceKeepOrderAndLoseNothing", nil, concurrent},
}

// appsNeverMeet uses the same names in two apps, and reads each app through every method.
func appsNeverMeet(e *env) {
	e.stored(e.note("id", title("one"), collapse("k")), "r")
	e.stored(e.note("id", app("other"), title("two"), collapse("k")), "r")
	e.stored(e.note("only", app("other")), "r")
	first, second := e.pending(mailbox.PendingQuery{Recipient: "r"}), e.pending(mailbox.PendingQuery{App: "other", Recipient: "r"})
	if len(first.Items) != 1 || len(second.Items) != 2 || first.LastSeq != 1 || second.LastSeq != 2 {
		e.Fatalf("pending %v and %v", itemIDs(first.Items), itemIDs(second.Items))
	}
	if first.Items[0].N.Content.Title != "one" || second.Items[0].N.Content.Title != "two" {
		e.Error("an app got the other's content")
	}
	if got := e.settleWith(&mailbox.Settle{App: "other", Recipient: "r", ID: "id", Pos: first.Items[0].Pos, As: notification.Acked}); got != mailbox.SettleUnknown {
		e.Errorf("settling the other app's position: outcome %d, want unknown", got)
	}
	if got := e.settleWith(&mailbox.Settle{Recipient: "r", ID: "only", As: notification.Acked}); got != mailbox.SettleUnknown {
		e.Errorf("settling the other app's id: outcome %d, want unknown", got)
	}
	if recs, err := e.s.Lookup(e.Context(), App, "only", ""); len(recs) != 0 || err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		e.Errorf("looking the other app's id up: %v, %v", recs, err)
	}
	for name, want := range map[string]*mailbox.PendingResult{App: &first, "other": &second} {
		for _, to := range []string{"", "r"} {
			recs, err := e.s.Lookup(e.Context(), name, "id", to)
			if err != nil || len(recs) != 1 || recs[0].Pos != want.Items[0].Pos {
				e.Errorf("looking the shared id up in %s: %+v, %v", name, recs, err)
			}
		}
		items, _, err := e.s.History(e.Context(), name, "r", 0, 10, 0)
		if err != nil || len(items) != len(want.Items) || items[len(items)-1].Pos != want.Items[0].Pos {
			e.Errorf("history in %s: %+v, %v", name, items, err)
		}
		if r, err := e.s.Recipient(e.Context(), name, "r"); err != nil || r.LastSeq != want.LastSeq || r.Pending != len(want.Items) {
			e.Errorf("recipient in %s: %+v, %v", name, r, err)
		}
		if rs, _, err := e.s.Recipients(e.Context(), name, 10, ""); err != nil || len(rs) != 1 || rs[0].LastSeq != want.LastSeq {
			e.Errorf("recipients in %s: %+v, %v", name, rs, err)
		}
	}
	e.acked("r", "id")
	if err := e.s.Erase(e.Context(), App, "r"); err != nil {
		e.Fatal(err)
	}
	second = e.pending(mailbox.PendingQuery{App: "other", Recipient: "r"})
	wantIDs(e, "the other app", itemIDs(second.Items), []string{"id", "only"})
}

func concurrent(e *env) {
	const publishers, each, recipients = 8, 24, 5
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				to := fmt.Sprint("r", (p+i)%recipients)
				n := e.note(fmt.Sprintf("p%d-%d", p, i))
				a := &mailbox.Append{N: n, To: []string{to}}
				if err := e.s.Append(e.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil {
					e.Errorf("append: %v, %+v", err, a.Results)
					return
				}
				q := &mailbox.Settle{App: App, Recipient: to, ID: n.ID, As: notification.Acked, At: n.CreatedAt}
				switch i % 3 {
				case 0:
					if err := e.s.Settle(e.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
						e.Errorf("settle: %v, outcome %d", err, q.Outcome)
					}
				case 1:
					e.s.SettleLater([]*mailbox.Settle{q})
				}
				if _, err := e.s.Pending(e.Context(), []mailbox.PendingQuery{{App: App, Recipient: to, Limit: 3}}); err != nil {
					e.Errorf("pending: %v", err)
				}
			}
		})
	}
	wg.Wait()
	eventually.True(e, "settling", func() bool { return e.s.Stats().Pending == publishers*each/3 })
	seqs, lastPos := map[string]uint64{}, map[string]int64{}
	for _, it := range e.rec.All().Stored {
		to := it.Recipient
		if seqs[to]++; it.Seq != seqs[to] || it.Pos <= lastPos[to] {
			e.Fatalf("%s told as seq %d at %d after seq %d at %d", to, it.Seq, it.Pos, seqs[to]-1, lastPos[to])
		}
		lastPos[to] = it.Pos
	}
	left := 0
	for r := range recipients {
		items := e.pending(mailbox.PendingQuery{Recipient: fmt.Sprint("r", r), Limit: 1000}).Items
		left += len(items)
		if !slices.IsSortedFunc(items, func(a, b mailbox.Item) int { return int(int64(a.Seq) - int64(b.Seq)) }) {
			e.Errorf("pending of r%d is not in seq order", r)
		}
	}
	if left != publishers*each/3 {
		e.Errorf("%d pending, want %d", left, publishers*each/3)
	}
}
