package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// steps adds a plan to a notification: each channel follows the previous one after as many seconds as its name has letters.
func steps(channels ...string) change {
	return func(n *notification.Notification) {
		after := time.Duration(0)
		for _, c := range channels {
			after += time.Duration(len(c)) * time.Second
			n.Steps = append(n.Steps, notification.Step{Channel: c, After: after})
		}
	}
}

func (e *env) escalator() mailbox.Escalator {
	e.Helper()
	s, ok := e.s.(mailbox.Escalator)
	if !ok {
		e.Fatal("the store keeps no escalations")
	}
	return s
}

// wantSteps checks which steps are due, as "recipient id channel", and returns them with the time of the next query.
func (e *env) wantSteps(want ...string) (due []mailbox.StepDue, next time.Time) {
	e.Helper()
	due, next, err := e.escalator().StepsDue(e.Context(), nil, e.clock.Now(), 100)
	if err != nil {
		e.Fatalf("steps due: %v", err)
	}
	slices.SortFunc(due, func(a, b mailbox.StepDue) int { // steps due at the same moment have no order
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Pos, b.Pos))
	})
	var got []string
	for _, d := range due {
		if d.App != App {
			e.Errorf("%+v is of another app", d)
		}
		got = append(got, d.Recipient+" "+d.ID+" "+d.Channel)
	}
	wantIDs(e, "steps due", got, want)
	return due, next
}

func (e *env) handedOver(due []mailbox.StepDue, skipped bool) {
	e.Helper()
	var done []mailbox.StepDone
	for _, d := range due {
		done = append(done, mailbox.StepDone{Ref: mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}, Step: d.Step, Skipped: skipped})
	}
	if err := e.escalator().HandedOver(e.Context(), done, e.clock.Now()); err != nil {
		e.Fatalf("handed over: %v", err)
	}
}

// putOff postpones steps by d.
func (e *env) putOff(due []mailbox.StepDue, d time.Duration) {
	e.Helper()
	var done []mailbox.StepDone
	for i := range due {
		done = append(done, mailbox.StepDone{
			Ref: mailbox.Ref{App: due[i].App, Recipient: due[i].Recipient, Pos: due[i].Pos}, Step: due[i].Step, Until: e.clock.Now().Add(d),
		})
	}
	if err := e.escalator().HandedOver(e.Context(), done, e.clock.Now()); err != nil {
		e.Fatalf("put off: %v", err)
	}
}

// refs lists references to all stored copies.
func (e *env) refs() (refs []mailbox.Ref) {
	for _, it := range e.rec.All().Stored {
		refs = append(refs, mailbox.Ref{App: it.N.App, Recipient: it.Recipient, Pos: it.Pos})
	}
	return refs
}

var escalateCases = []testCase{
	{"AStepIsDueUntilItWasHandedOverAndThenTheNextOne", []Ability{Escalate}, func(e *env) {
		start := e.clock.Now()
		e.stored(e.note("x", steps("fcm", "chat")), "r")
		e.stored(e.note("plain"), "r")
		if _, next := e.wantSteps(); !next.Equal(start.Add(3 * time.Second)) {
			e.Errorf("come again at %s, want %s", next, start.Add(3*time.Second))
		}
		e.clock.Advance(3*time.Second - time.Millisecond)
		e.wantSteps()
		now := e.clock.Advance(time.Millisecond)
		due, _ := e.wantSteps("r x fcm")
		if d := due[0]; d.Step != 0 || !d.Due.Equal(now) || !d.ExpiresAt.Equal(start.Add(time.Hour)) || d.Pos != e.refs()[0].Pos {
			e.Errorf("the step is %+v", d)
		}
		e.wantSteps("r x fcm") // nobody was told
		e.reopen()
		due, _ = e.wantSteps("r x fcm")
		e.handedOver(due, false)
		if _, next := e.wantSteps(); !next.Equal(start.Add(7 * time.Second)) {
			e.Errorf("come again at %s, want %s", next, start.Add(7*time.Second))
		}
		e.handedOver(due, false) // told twice
		e.clock.Advance(3999 * time.Millisecond)
		e.wantSteps()
		e.reopen()
		e.clock.Advance(time.Millisecond)
		due, _ = e.wantSteps("r x chat")
		e.handedOver(due, false)
		if _, next := e.wantSteps(); !next.IsZero() {
			e.Errorf("come again at %s although all steps were handed over", next)
		}
		e.reopen()
		e.clock.Advance(time.Minute)
		e.wantSteps()
		e.wantPending("r", "x", "plain")
		e.acked("r", "x")
	}},
	{"AStepKeepsWhatItSaysOfItsMessages", []Ability{Escalate}, func(e *env) {
		options := notification.StepOptions{Shown: true, Keep: true, To: "sms"}
		e.stored(e.note("x", steps("fcm", "chat"), func(n *notification.Notification) { n.Steps[1].StepOptions = options }), "r")
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r x fcm")
		if due[0].StepOptions != (notification.StepOptions{}) {
			e.Errorf("the first step has %+v", due[0].StepOptions)
		}
		e.handedOver(due, false)
		e.reopen()
		e.clock.Advance(4 * time.Second)
		if due, _ := e.wantSteps("r x chat"); due[0].StepOptions != options {
			e.Errorf("the second step has %+v, want %+v", due[0].StepOptions, options)
		}
	}},
	{"AStepThatReachedNobodyMakesTheNextDueAtOnce", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm", "chat", "mail")), "r")
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r x fcm")
		e.handedOver(due, true)
		due, _ = e.wantSteps("r x chat")
		e.handedOver(due, false)
		e.wantSteps()
		e.clock.Advance(8 * time.Second)
		e.wantSteps("r x mail")
	}},
	{"WhatIsSettledHasNoFurtherStep", []Ability{Escalate, Recall, Collapse}, func(e *env) {
		plan := steps("fcm", "chat")
		for _, id := range []string{"acked", "recalled", "replied", "expired", "stays"} {
			changes := []change{plan}
			if id == "expired" {
				changes = append(changes, ttl(4*time.Second))
			}
			e.stored(e.note(id, changes...), "r")
		}
		e.stored(e.note("replaced", plan, collapse("k")), "r")
		e.stored(e.note("new", collapse("k")), "r")
		e.acked("r", "acked")
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r recalled fcm", "r replied fcm", "r expired fcm", "r stays fcm")
		e.ends("r", "recalled", notification.Recalled, mailbox.SettleDone)
		e.handedOver(due, false) // includes the recalled one, whose step is reported too late
		e.ends("r", "replied", notification.Replied, mailbox.SettleDone)
		e.clock.Advance(4 * time.Second)
		e.wantSteps("r stays chat") // even before a sweep has ended the expired copies
		e.reopen()
		e.wantSteps("r stays chat")
		e.expire()
		var told []string
		for _, s := range e.rec.All().Settled {
			if !s.Escalates {
				e.Errorf("%s is told to have had no steps", s.ID)
			}
			told = append(told, s.ID)
		}
		slices.Sort(told)
		wantIDs(e, "settled", told, []string{"acked", "expired", "recalled", "replaced", "replied"})
	}},
	{"AStepThatIsPutOffComesThenAndTheNextKeepsItsDistance", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm", "chat")), "r", "s") // due after 3 s and 7 s
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r x fcm", "s x fcm")
		e.putOff(due, time.Minute)
		want := []notification.Step{{Channel: "fcm", After: 63 * time.Second}, {Channel: "chat", After: 67 * time.Second}}
		if got, next, err := e.escalator().StepsOf(e.Context(), e.refs()[0]); err != nil || next != 0 || !slices.Equal(got, want) {
			e.Errorf("steps %v, next %d, %v; want %v", got, next, err, want)
		}
		if _, next := e.wantSteps(); !next.Equal(e.clock.Now().Add(time.Minute)) {
			e.Errorf("come again at %s, want a minute after %s", next, e.clock.Now())
		}
		e.handedOver([]mailbox.StepDue{{App: App, Recipient: "s", Pos: due[1].Pos, Step: 1}}, false) // it is another's turn
		e.reopen()
		e.clock.Advance(time.Minute - time.Millisecond)
		e.wantSteps()
		e.acked("s", "x")
		now := e.clock.Advance(time.Millisecond)
		if due, _ = e.wantSteps("r x fcm"); due[0].Step != 0 || !due[0].Due.Equal(now) {
			e.Errorf("the step is %+v", due[0])
		}
		e.putOff(due, time.Minute) // once more
		e.wantSteps()
		e.clock.Advance(time.Minute)
		due, _ = e.wantSteps("r x fcm")
		e.handedOver(due, false)
		e.clock.Advance(4*time.Second - time.Millisecond)
		e.wantSteps()
		e.reopen()
		e.clock.Advance(time.Millisecond)
		due, _ = e.wantSteps("r x chat")
		e.putOff(due, 2*time.Hour) // beyond the notification's end
		e.clock.Advance(2 * time.Hour)
		e.wantSteps()
	}},
	{"WhoIsAwayHasAStepPutOffToo", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm")), "r")
		e.escalator().Hurry(e.refs())
		due, _ := e.wantSteps("r x fcm")
		e.putOff(due, time.Minute)
		e.clock.Advance(3 * time.Second) // its own time
		e.wantSteps()
		e.clock.Advance(time.Minute)
		e.wantSteps("r x fcm")
	}},
	{"EachCopyEscalatesForItself", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm", "chat")), "r", "s", "t")
		e.acked("s", "x")
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r x fcm", "t x fcm")
		e.handedOver(due[:1], false)
		e.acked("t", "x")
		e.wantSteps()
		e.clock.Advance(4 * time.Second)
		e.wantSteps("r x chat")
		e.acked("r", "x")
		e.wantSteps()
		for _, it := range e.rec.All().Stored {
			if !it.Escalates {
				e.Errorf("the copy of %s is told to have no steps", it.Recipient)
			}
		}
	}},
	{"AllDevicesMustAckBeforeStepsEnd", []Ability{Escalate, AckAll}, func(e *env) {
		e.stored(e.note("x", steps("fcm"), ack(notification.AckAll)), "r")
		q := &mailbox.Settle{Recipient: "r", ID: "x", As: notification.Acked, Device: "phone", Online: []string{"phone", "tablet"}}
		if got := e.settleWith(q); got != mailbox.SettlePartial {
			e.Fatalf("outcome %d, want partial", got)
		}
		e.clock.Advance(3 * time.Second)
		e.wantSteps("r x fcm")
		q.Device = "tablet"
		if got := e.settleWith(q); got != mailbox.SettleDone {
			e.Fatalf("outcome %d, want done", got)
		}
		e.wantSteps()
	}},
	{"ScheduledOnesEscalateFromTheirTime", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm"), sendAfter(time.Minute, time.Hour)), "r")
		e.clock.Advance(2 * time.Minute)
		e.wantSteps() // as on a busy server: a copy without a seq is not visible yet
		e.due()
		if told := e.rec.All().Due; len(told) != 1 || !told[0].Escalates {
			e.Errorf("told of %+v", told)
		}
		e.wantSteps("r x fcm")
		e.reopen()
		e.wantSteps("r x fcm")
	}},
	{"TheFirstPlanStands", []Ability{Escalate, Dedup}, func(e *env) {
		e.stored(e.note("x", steps("fcm")), "r")
		for _, again := range []change{steps("chat"), steps("fcm", "chat"), func(*notification.Notification) {}} {
			if res := e.publish(e.note("x", again), "r"); !res[0].Duplicate || res[0].Err != nil {
				e.Errorf("got %+v, want a duplicate", res[0])
			}
		}
		e.stored(e.note("plain"), "r")
		e.publish(e.note("plain", steps("fcm")), "r")
		e.clock.Advance(time.Minute)
		due, _ := e.wantSteps("r x fcm")
		e.handedOver(due, false)
		e.wantSteps()
	}},
	{"WhoIsAwayGetsTheFirstStepAtOnceAndOthersAtTheirTime", []Ability{Escalate}, func(e *env) {
		start := e.clock.Now()
		e.stored(e.note("x", steps("fcm", "chat")), "r")
		e.stored(e.note("plain"), "r")
		e.escalator().Hurry(e.refs())
		due, _ := e.wantSteps("r x fcm")
		if !due[0].Due.Equal(start) {
			e.Errorf("due at %s, want %s", due[0].Due, start)
		}
		due, _ = e.wantSteps("r x fcm")
		e.handedOver(due, false)
		e.escalator().Hurry(e.refs())
		e.wantSteps()
		e.clock.Advance(3 * time.Second)
		e.wantSteps() // the first one's own time
		e.clock.Advance(4 * time.Second)
		e.wantSteps("r x chat")
	}},
	{"StepsCanBeSeenWhileTheirCopyIsOpen", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm", "chat")), "r", "s")
		e.stored(e.note("plain"), "r")
		want := e.note("", steps("fcm", "chat")).Steps
		see := func(ref mailbox.Ref, wantNext int, want []notification.Step) {
			e.Helper()
			got, next, err := e.escalator().StepsOf(e.Context(), ref)
			if err != nil || next != wantNext || !slices.Equal(got, want) {
				e.Errorf("steps %v, next %d, %v; want %v, next %d", got, next, err, want, wantNext)
			}
		}
		refs := e.refs()
		see(refs[0], 0, want)
		see(refs[1], 0, want)
		see(refs[2], 0, nil)
		see(mailbox.Ref{App: App, Recipient: "s", Pos: refs[0].Pos}, 0, nil)
		see(mailbox.Ref{App: "other", Recipient: "r", Pos: refs[0].Pos}, 0, nil)
		for i := range want {
			e.clock.Advance(time.Minute)
			due, _ := e.wantSteps("r x "+want[i].Channel, "s x "+want[i].Channel)
			e.handedOver(due, false)
			see(refs[0], i+1, want)
		}
		e.acked("s", "x")
		see(refs[1], 0, nil)
		e.reopen()
		see(refs[0], 2, want) // whose plan it is too
		e.acked("r", "x")
		see(refs[0], 0, nil)
	}},
	{"ErasingARecipientEndsItsSteps", []Ability{Escalate}, func(e *env) {
		e.stored(e.note("x", steps("fcm")), "r", "s")
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		e.clock.Advance(3 * time.Second)
		e.wantSteps("s x fcm")
		e.reopen()
		e.wantSteps("s x fcm")
	}},
	{"StepsOfSomeAppsComeWithoutThoseOfOthers", []Ability{Escalate}, func(e *env) {
		other := e.note("theirs", steps("fcm"))
		other.App = "other"
		e.stored(other, "r")
		e.stored(e.note("ours", steps("fcm"), func(n *notification.Notification) { n.Steps[0].After = 5 * time.Second }), "r")
		ours := e.clock.Now().Add(5 * time.Second)
		of := func(want string, apps ...string) {
			e.Helper()
			now := e.clock.Now()
			due, next, err := e.escalator().StepsDue(e.Context(), apps, now, 1)
			got := ""
			for _, d := range due {
				got += d.ID
			}
			if err != nil || got != want || now.Before(ours) && (next.IsZero() || next.After(ours)) {
				e.Errorf("of %v %q is due, and come again at %s, %v; want %q, and %s", apps, got, next, err, want, ours)
			}
		}
		e.clock.Advance(4500 * time.Millisecond)
		of("", App)
		of("theirs", "other", App)
		e.clock.Advance(500 * time.Millisecond)
		of("ours", App)
		of("theirs", App, "other")
		of("", "unknown")
		of("theirs")
	}},
	{"ManyStepsComeInSlicesLongestDueFirst", []Ability{Escalate}, func(e *env) {
		var to []string
		for i := range 250 {
			to = append(to, fmt.Sprintf("r%03d", i))
		}
		e.stored(e.note("late", steps("chat")), to...)
		e.stored(e.note("soon", steps("fcm")), "first")
		e.clock.Advance(time.Minute)
		seen := make(map[string]bool)
		for range 3 {
			due, _, err := e.escalator().StepsDue(e.Context(), nil, e.clock.Now(), 100)
			if err != nil {
				e.Fatal(err)
			}
			if len(seen) == 0 && due[0].ID != "soon" {
				e.Errorf("the first is %+v", due[0])
			}
			for _, d := range due {
				if seen[d.Recipient] {
					e.Errorf("%s comes twice", d.Recipient)
				}
				seen[d.Recipient] = true
			}
			e.handedOver(due, false)
		}
		if len(seen) != 251 {
			e.Errorf("%d steps, want 251", len(seen))
		}
		e.wantSteps()
	}},
	{"StepsSurviveACrash", []Ability{Escalate, Crash}, func(e *env) {
		e.stored(e.note("x", steps("fcm", "chat")), "r")
		e.stored(e.note("y", steps("fcm", "chat")), "r")
		e.clock.Advance(3 * time.Second)
		due, _ := e.wantSteps("r x fcm", "r y fcm")
		e.handedOver(due[:1], false)
		if e.o.Crash == nil {
			return
		}
		e.use(e.o.Crash())
		e.wantSteps("r y fcm")
		e.clock.Advance(4 * time.Second)
		e.wantSteps("r y fcm", "r x chat")
	}},
}
