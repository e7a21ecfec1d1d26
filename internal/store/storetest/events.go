package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

// OpenEvents opens an empty event log for one test; reopen closes and reopens it. The test's cleanup closes it.
type OpenEvents func(t *testing.T) (l event.Log, reopen func() event.Log)

// RunEvents is the conformance suite of event logs.
func RunEvents(t *testing.T, open OpenEvents, two Two[event.Log]) {
	t.Helper()
	for name, run := range map[string]func(e *eventEnv){
		"EveryFollowerGetsItsAppsEventsInTheirOrder": eventsInOrder,
		"EventsOutliveTheProcess":                    eventsSurvive,
		"APageIsNoLongerThanAskedFor":                eventPages,
		"LastIsHowFarAReaderHasLooked":               eventsLast,
		"SinceBeyondTheNewestMeansNow":               eventsNow,
		"WaitingEndsWithItsContextAndWithTheLog":     eventsWait,
		"AnErasedAppLeavesNothing":                   erasedAppLeavesNoEvent,
		"AForgottenRecipientsEventsAreNotRead":       forgottenRecipientLeavesNoEvent,
		"ALogThatWasClosedLacksNothing":              eventsWhole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &eventEnv{T: t}
			e.l, e.reopen = open(t)
			run(e)
		})
	}
	t.Run("WhatIsEmittedThroughTwoIsReadThroughBothWithoutAGap", func(t *testing.T) {
		t.Parallel()
		a, b := two(t, time.Now)
		logs := [2]event.Log{a, b}
		const each = 100
		atOnce(4, each, func(caller, nth int) {
			evs := []event.Event{eventOf("a", caller*each+nth)}
			evs[0].Note = fmt.Sprintf("%d-%d", caller, nth)
			logs[caller%2].Emit(evs)
		})
		for _, l := range logs {
			seen := map[string]bool{}
			for _, got := range (&eventEnv{T: t, l: l}).follow("a", 0, 4*each, 7) {
				seen[got.Note] = true
			}
			if len(seen) != 4*each {
				t.Errorf("%d events are known, want %d", len(seen), 4*each)
			}
		}
	})
	t.Run("ACursorOfOneIsGoodAtTheOther", func(t *testing.T) {
		t.Parallel()
		a, b := two(t, time.Now)
		at, other := &eventEnv{T: t, l: a}, &eventEnv{T: t, l: b}
		if _, _, err := b.Read(t.Context(), "a", 0, 1, false); err != nil {
			t.Fatal(err)
		}
		at.emit("a", 0, 100)
		cursor := at.follow("a", 0, 100, 100)[99].ID
		// The other log may not have these events yet: it must not start again from the beginning.
		if evs, last, err := b.Read(t.Context(), "a", cursor, 10, false); err != nil || len(evs) != 0 || last < cursor {
			t.Errorf("%d events, last %d, %v; want none after %d", len(evs), last, err, cursor)
		}
		at.emit("a", 100, 101)
		other.are(other.follow("a", cursor, 1, 10), "a", 100, 1)
	})
}

// eventEnv is one test's log, with the suite's helpers.
type eventEnv struct {
	*testing.T
	l      event.Log
	reopen func() event.Log
}

func eventOf(app string, n int) event.Event {
	e := event.Event{
		App: app, Type: event.Types[n%len(event.Types)], At: time.UnixMilli(int64(1_700_000_000_000 + n)).UTC(), Note: fmt.Sprint("note-", n),
		To: fmt.Sprint("driver-", n%7),
	}
	if n%11 == 0 {
		e.Channel, e.Step, e.Detail, e.Reconciled = "fcm", n%3, "no such token / 404", n%2 == 0
	}
	return e
}

func (e *eventEnv) emit(app string, from, to int) {
	for n := from; n < to; n++ {
		e.l.Emit([]event.Event{eventOf(app, n)})
	}
}

// follow reads an app's events until it has n of them.
func (e *eventEnv) follow(app string, since uint64, n, page int) (got []event.Event) {
	e.Helper()
	ctx, cancel := context.WithTimeoutCause(e.Context(), 2*time.Minute, errors.New("the events did not come"))
	defer cancel()
	for len(got) < n {
		evs, last, err := e.l.Read(ctx, app, since, page, true)
		if err != nil {
			e.Errorf("after %d of %d events: %v", len(got), n, err)
			return got
		}
		if len(evs) > page || len(evs) > 0 && last < evs[len(evs)-1].ID {
			e.Errorf("%d events up to %d with a limit of %d", len(evs), last, page)
		}
		since, got = last, append(got, evs...)
	}
	return got
}

// are checks that these are an app's events numbered from first on, with ascending ids.
func (e *eventEnv) are(got []event.Event, app string, first, n int) {
	e.Helper()
	if len(got) != n {
		e.Errorf("%d events of %s, want %d", len(got), app, n)
	}
	for i, g := range got {
		want := eventOf(app, first+i)
		if want.ID = g.ID; g != want || i > 0 && g.ID <= got[i-1].ID {
			e.Errorf("event %d of %s is %+v, want %+v with an id that grows", i, app, g, want)
			return
		}
	}
}

func eventsInOrder(e *eventEnv) {
	const n = 3000
	done := make(chan struct{})
	followers := 0
	for range 3 {
		for app, page := range map[string]int{"a": 37, "b": 5000} {
			followers++
			go func() {
				e.are(e.follow(app, 0, n, page), app, 0, n)
				done <- struct{}{}
			}()
		}
	}
	for i := 0; i < n; i += 2 {
		e.l.Emit([]event.Event{eventOf("a", i), eventOf("b", i), eventOf("b", i+1), eventOf("a", i+1)})
	}
	for range followers {
		<-done
	}
}

func eventsSurvive(e *eventEnv) {
	e.emit("a", 0, 500)
	e.emit("b", 0, 10)
	newest := e.l.Last()
	e.l = e.reopen()
	e.emit("a", 500, 600)
	got := e.follow("a", 0, 600, 100)
	e.are(got, "a", 0, 600)
	e.are(e.follow("a", got[123].ID, 600-124, 1000), "a", 124, 600-124)
	e.are(e.follow("b", 0, 10, 100), "b", 0, 10)
	if e.Failed() {
		return
	}
	if got[500].ID <= newest {
		e.Errorf("after reopening ids go on at %d, which is not after %d", got[500].ID, newest)
	}
}

func eventPages(e *eventEnv) {
	e.emit("a", 0, 25)
	e.follow("a", 0, 25, 25) // they are committed now
	for _, limit := range []int{1, 10, 25, 100} {
		evs, _, err := e.l.Read(e.Context(), "a", 0, limit, false)
		if err != nil || len(evs) != min(limit, 25) {
			e.Errorf("%d events with a limit of %d, %v", len(evs), limit, err)
			continue
		}
		e.are(evs, "a", 0, min(limit, 25))
	}
}

func eventsLast(e *eventEnv) {
	e.emit("a", 0, 3)
	e.emit("b", 0, 5)
	a := e.follow("a", 0, 3, 10)
	b := e.follow("b", 0, 5, 10)
	if e.Failed() {
		return
	}
	evs, last, err := e.l.Read(e.Context(), "a", a[2].ID, 10, false)
	if err != nil || len(evs) != 0 || last < b[4].ID {
		e.Errorf("%d events, last %d, %v; want none, and that it has looked up to %d", len(evs), last, err, b[4].ID)
	}
	if last > e.l.Last() {
		e.Errorf("last is %d, and the newest given out %d", last, e.l.Last())
	}
	if evs, last, err = e.l.Read(e.Context(), "a", a[0].ID, 1, false); err != nil || len(evs) != 1 || last != evs[0].ID {
		e.Errorf("a full page: %d events, last %d, %v", len(evs), last, err)
	}
}

func eventsNow(e *eventEnv) {
	e.emit("a", 0, 5)
	e.follow("a", 0, 5, 10)
	evs, last, err := e.l.Read(e.Context(), "a", 1<<64-1, 10, false)
	if err != nil || len(evs) != 0 {
		e.Fatalf("%d events, %v", len(evs), err)
	}
	e.emit("a", 5, 6)
	e.are(e.follow("a", last, 1, 10), "a", 5, 1)
}

func eventsWait(e *eventEnv) {
	ended := make(chan error, 1)
	wait := func(ctx context.Context) {
		_, _, err := e.l.Read(ctx, "a", e.l.Last(), 1, true)
		ended <- err
	}
	ctx, cancel := context.WithCancel(e.Context())
	go wait(ctx)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		e.Errorf("its context ended, and it says: %v", err)
	}
	go wait(e.Context())
	e.reopen()
	if err := <-ended; err == nil {
		e.Error("the log was closed, and a follower was told nothing")
	}
}

func eventsWhole(e *eventEnv) {
	e.emit("a", 0, 100)
	e.wantGaps(0)
	e.l = e.reopen()
	e.wantGaps(0)
}

// wantGaps checks how many gaps the log reports, and returns them.
func (e *eventEnv) wantGaps(n int) []event.Gap {
	e.Helper()
	gaps, err := e.l.(event.Repairable).Gaps(e.Context(), nil)
	if err != nil || len(gaps) != n {
		e.Errorf("%+v, %v; want %d", gaps, err, n)
	}
	return gaps
}
