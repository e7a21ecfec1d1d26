package storetest

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
)

// OpenProgress opens an empty store for one test, as OpenApps does.
type OpenProgress func(t *testing.T) (s hook.ProgressStore, reopen func() hook.ProgressStore)

// RunProgress is the conformance suite of stores of hooks' progress.
func RunProgress(t *testing.T, open OpenProgress, two Two[hook.ProgressStore]) {
	t.Helper()
	for name, run := range map[string]func(e *progressEnv){
		"ProgressIsReplacedAndForgottenByAppAndName": progressIsKept,
		"AFormerOwnerWritesNothing":                  formerProgress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &progressEnv{T: t}
			e.s, e.reopen = open(t)
			run(e)
		})
	}
	for name, run := range map[string]func(e *progressEnv, other hook.ProgressStore){
		"WhatOneSavesTheOtherReads":             twoReadProgress,
		"TakingOverShutsTheOtherOut":            twoOwnProgress,
		"OfTwoThatTakeOverAtOnceOneIsTheOwner":  twoAtOnce,
		"OwnersOfAppsSaveBesideEachOtherAtOnce": twoSaveProgress,
		"TakingOverReadsAllThatTheFormerSaved":  twoRaceProgress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := two(t, time.Now)
			run(&progressEnv{T: t, s: a}, b)
		})
	}
}

// progressEnv is one test's store, with the suite's helpers.
type progressEnv struct {
	*testing.T
	s      hook.ProgressStore
	reopen func() hook.ProgressStore
}

func (e *progressEnv) own(s hook.ProgressStore, app string, want ...hook.Progress) (epoch int64) {
	e.Helper()
	epoch, got, err := s.OwnHookProgress(e.Context(), app)
	e.are(got, err, want)
	return epoch
}

func (e *progressEnv) save(s hook.ProgressStore, former []string, list ...hook.Saving) {
	e.Helper()
	got, err := s.SaveHookProgress(e.Context(), list)
	if slices.Sort(got); err != nil || !slices.Equal(got, former) {
		e.Errorf("former owners are %v, %v; want %v", got, err, former)
	}
}

func (e *progressEnv) reads(s hook.ProgressStore, app string, want ...hook.Progress) {
	e.Helper()
	got, err := s.HookProgress(e.Context(), app)
	e.are(got, err, want)
}

func (e *progressEnv) are(got []hook.Progress, err error, want []hook.Progress) {
	e.Helper()
	slices.SortFunc(got, func(a, b hook.Progress) int { return strings.Compare(a.App+"/"+a.Name, b.App+"/"+b.Name) })
	if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		e.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func progressIsKept(e *progressEnv) {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	one := hook.Progress{
		App: "a", Name: "one", Cursor: 1<<62 + 7, Delivered: 12, LastDelivered: at, Failing: at.Add(1e9), Attempts: 3, NextAt: at.Add(2e9),
		LastError: "no route", Paused: "it failed for days", PausedAt: at.Add(3e9), Made: at.Add(4e9), Took: at.Add(5e9),
	}
	two, same := hook.Progress{App: "a", Name: "two", Cursor: 5}, hook.Progress{App: "b", Name: "one", Cursor: 6}
	moved := two
	moved.Cursor = 9
	a, b := e.own(e.s, "a"), e.own(e.s, "b")
	for _, c := range []struct {
		save, wantA, wantB []hook.Progress
		saving             []hook.Saving
	}{
		{saving: []hook.Saving{{App: "a", Epoch: a, Save: []hook.Progress{one, two}}, {App: "b", Epoch: b, Save: []hook.Progress{same}}}, wantA: []hook.Progress{one, two}, wantB: []hook.Progress{same}},
		{saving: []hook.Saving{{App: "b", Epoch: b, Forget: []string{"one", "none"}}, {App: "a", Epoch: a, Save: []hook.Progress{moved}}}, wantA: []hook.Progress{one, moved}},
		{saving: []hook.Saving{{App: "a", Epoch: a, Forget: []string{"two"}, Save: []hook.Progress{two}}}, wantA: []hook.Progress{one, two}}, // a new hook with the same name
	} {
		e.save(e.s, nil, c.saving...)
		e.s = e.reopen()
		e.reads(e.s, "a", c.wantA...)
		e.reads(e.s, "b", c.wantB...)
		e.reads(e.s, "", append(c.wantA, c.wantB...)...)
	}
	if next := e.own(e.s, "a", one, two); next <= a {
		e.Errorf("epoch %d after %d", next, a)
	}
}

func formerProgress(e *progressEnv) {
	first := e.own(e.s, "a")
	other := e.own(e.s, "b")
	second := e.own(e.s, "a")
	p, q := hook.Progress{App: "a", Name: "one", Cursor: 1}, hook.Progress{App: "b", Name: "one", Cursor: 2}
	e.save(e.s, []string{"a"}, hook.Saving{App: "a", Epoch: first, Save: []hook.Progress{p}}, hook.Saving{App: "b", Epoch: other, Save: []hook.Progress{q}})
	e.reads(e.s, "", q)
	e.save(e.s, nil, hook.Saving{App: "a", Epoch: second, Save: []hook.Progress{p}})
	e.save(e.s, []string{"a"}, hook.Saving{App: "a", Epoch: first, Forget: []string{"one"}})
	e.save(e.s, []string{"nobody's"}, hook.Saving{App: "nobody's", Save: []hook.Progress{{App: "nobody's", Name: "one"}}})
	e.reads(e.s, "", p, q)
	e.s = e.reopen()
	e.save(e.s, []string{"a"}, hook.Saving{App: "a", Epoch: first, Forget: []string{"one"}})
	e.save(e.s, nil, hook.Saving{App: "a", Epoch: second, Forget: []string{"one"}})
	e.reads(e.s, "", q)
	e.own(e.s, "a") // does not return b's progress
	e.own(e.s, "b", q)
}

func twoReadProgress(e *progressEnv, other hook.ProgressStore) {
	epoch := e.own(e.s, "a")
	for n := range uint64(10) {
		p := hook.Progress{App: "a", Name: "one", Cursor: n, Took: time.UnixMilli(int64(n + 1)).UTC()} // small
		e.save(e.s, nil, hook.Saving{App: "a", Epoch: epoch, Save: []hook.Progress{p}})
		e.reads(other, "a", p)
		e.reads(other, "", p)
	}
}

func twoOwnProgress(e *progressEnv, other hook.ProgressStore) {
	stores := [2]hook.ProgressStore{e.s, other}
	var had []hook.Progress
	var last int64
	for n := range 6 {
		epoch := e.own(stores[n%2], "a", had...)
		if epoch <= last {
			e.Errorf("epoch %d after %d", epoch, last)
		}
		had = []hook.Progress{{App: "a", Name: "one", Cursor: uint64(n)}} // small
		e.save(stores[n%2], nil, hook.Saving{App: "a", Epoch: epoch, Save: had})
		e.save(stores[(n+1)%2], []string{"a"}, hook.Saving{App: "a", Epoch: last, Save: []hook.Progress{{App: "a", Name: "one", Cursor: 100}}, Forget: []string{"one"}})
		last = epoch
	}
	e.reads(e.s, "a", had...)
}

func twoAtOnce(e *progressEnv, other hook.ProgressStore) {
	stores, epochs := [2]hook.ProgressStore{e.s, other}, [40]int64{}
	atOnce(4, 10, func(caller, nth int) {
		epochs[caller*10+nth] = e.own(stores[caller%2], "a")
	})
	slices.Sort(epochs[:])
	if n := len(slices.Compact(epochs[:])); n != 40 {
		e.Errorf("40 owners had %d epochs", n)
	}
	for i, s := range stores {
		e.save(s, []string{"a"}, hook.Saving{App: "a", Epoch: epochs[38], Forget: []string{"x"}})
		e.save(s, nil, hook.Saving{App: "a", Epoch: epochs[39], Save: []hook.Progress{{App: "a", Name: "one", Cursor: uint64(i)}}}) // small
	}
}

// twoSaveProgress lets each store own half of the apps; both get saves for all apps, in either order.
func twoSaveProgress(e *progressEnv, other hook.ProgressStore) {
	stores, apps := [2]hook.ProgressStore{e.s, other}, [10]string{}
	var epochs [10]int64
	for i := range apps {
		apps[i] = string(rune('a' + i))
		epochs[i] = e.own(stores[i%2], apps[i])
	}
	var refused atomic.Int64
	atOnce(2, 20, func(caller, nth int) {
		var list []hook.Saving
		for i, app := range apps {
			v := hook.Saving{App: app, Epoch: epochs[i], Save: []hook.Progress{{App: app, Name: "one", Cursor: uint64(nth)}}} // small
			if i%2 != caller {
				v.Epoch--
			}
			list = append(list, v)
		}
		if caller == 1 {
			slices.Reverse(list)
		}
		former, err := stores[caller].SaveHookProgress(e.Context(), list)
		if err != nil {
			e.Error(err)
		}
		refused.Add(int64(len(former)))
	})
	if n := refused.Load(); n != 2*20*5 {
		e.Errorf("%d were refused, want those of the other's apps", n)
	}
	var want []hook.Progress
	for _, app := range apps {
		want = append(want, hook.Progress{App: app, Name: "one", Cursor: 19})
	}
	e.reads(e.s, "", want...)
}

// twoRaceProgress takes over from an owner that is saving: the progress read then is the last one that the owner saved.
func twoRaceProgress(e *progressEnv, other hook.ProgressStore) {
	stores := [2]hook.ProgressStore{e.s, other}
	for n := range 30 {
		former, next := stores[n%2], stores[(n+1)%2]
		epoch, _, err := former.OwnHookProgress(e.Context(), "a")
		if err != nil {
			e.Fatal(err)
		}
		var saving sync.WaitGroup
		begun := make(chan struct{})
		saving.Go(func() {
			for i := uint64(0); ; i++ {
				p := hook.Progress{App: "a", Name: "one", Cursor: i}
				refused, err := former.SaveHookProgress(e.Context(), []hook.Saving{{App: "a", Epoch: epoch, Save: []hook.Progress{p}}})
				if i == 0 {
					close(begun)
				}
				if err != nil {
					e.Error(err)
				}
				if err != nil || len(refused) > 0 {
					return
				}
			}
		})
		<-begun
		_, read, err := next.OwnHookProgress(e.Context(), "a")
		if err != nil {
			e.Error(err)
		}
		saving.Wait()
		e.reads(next, "a", read...)
		if e.Failed() {
			return
		}
	}
}
