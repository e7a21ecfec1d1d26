package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// PreferenceStore is a store of preferences under test, with the endpoints of their recipients.
type PreferenceStore interface {
	EndpointStore
	preference.Store
}

// OpenPreferences opens an empty store for one test; reopen closes and reopens it. The test's cleanup closes it.
type OpenPreferences func(t *testing.T) (s PreferenceStore, reopen func() PreferenceStore)

// RunPreferences is the conformance suite of preference.Store.
func RunPreferences(t *testing.T, open OpenPreferences) {
	t.Helper()
	for name, run := range map[string]func(e *preferenceEnv){
		"WhatIsSaidIsKeptUntilSomethingElseIs":   preferencesAreKept,
		"ALimitLetsSoManyBeginAndThenMore":       limitsCount,
		"AStepThatIsAskedForAgainIsCountedOnce":  limitsCountOnce,
		"LimitsCountForEachAppRecipientCategory": limitsAreApart,
		"ErasingARecipientErasesWhatItSaid":      preferencesAreErased,
		"AnErasedAppLeavesNothing":               erasedAppLeavesNoPreference,
		"WhatNoLimitCountsAnyMoreIsForgotten":    begunIsPruned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &preferenceEnv{T: t, now: testclock.New().Now()}
			e.s, e.reopen = open(t)
			run(e)
		})
	}
}

type preferenceEnv struct {
	*testing.T
	now    time.Time
	s      PreferenceStore
	reopen func() PreferenceStore
}

func (e *preferenceEnv) set(app, recipient string, p preference.Preferences) {
	e.Helper()
	if err := e.s.SetPreferences(e.Context(), app, recipient, &p); err != nil {
		e.Fatal(err)
	}
}

// want checks the stored preferences of recipients; zero preferences: none are stored.
func (e *preferenceEnv) want(app, recipient string, p preference.Preferences) {
	e.Helper()
	said, err := e.s.Preferences(e.Context(), app, []string{"nobody", recipient})
	got, some := said[recipient]
	if err != nil || some == p.IsZero() || some && !reflect.DeepEqual(got, p) || len(said) > 1 {
		e.Fatalf("%s of %s said %+v, %v; want %+v", recipient, app, said, err, p)
	}
}

// begin checks whether a step may start.
func (e *preferenceEnv) begin(app, recipient, category string, step byte, limit preference.Limit, want bool) {
	e.Helper()
	b := preference.Begun{ID: [16]byte{step}, Recipient: recipient, Category: category, Limit: limit}
	may, err := e.s.Begin(e.Context(), app, []preference.Begun{b}, e.now)
	if err != nil || !slices.Equal(may, []bool{want}) {
		e.Fatalf("step %d may start: %v, %v; want %v", step, may, err, want)
	}
}

var (
	noPromo = preference.Preferences{
		Categories: map[string]preference.Choice{"promo": {Channels: []push.Channel{}}, "*": {Channels: []push.Channel{push.FCM}}, "rides": {}},
	}
	atNight = preference.Preferences{Quiet: &preference.Hours{From: "22:00", To: "08:00"}, Timezone: "Europe/Oslo"}
)

func preferencesAreKept(e *preferenceEnv) {
	e.want(App, "r", preference.Preferences{})
	e.set(App, "r", noPromo)
	e.set(App, "s", atNight)
	e.set("other", "r", atNight)
	e.s = e.reopen()
	e.want(App, "r", noPromo)
	e.want(App, "s", atNight)
	e.want("other", "r", atNight)
	e.set(App, "r", atNight)
	e.want(App, "r", atNight)
	e.set(App, "r", preference.Preferences{})
	e.set(App, "r", preference.Preferences{Categories: map[string]preference.Choice{}}) // equal to no preferences
	e.want(App, "r", preference.Preferences{})
	e.want("other", "r", atNight)
	if said, err := e.s.Preferences(e.Context(), App, nil); err != nil || len(said) != 0 {
		e.Errorf("of nobody: %+v, %v", said, err)
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("r", i)
		if i%10 == 0 {
			e.set(App, many[i], noPromo)
		}
	}
	if said, err := e.s.Preferences(e.Context(), App, many); err != nil || len(said) != 30 {
		e.Errorf("%d of 30 recipients have said something, %v", len(said), err)
	}
}

func limitsCount(e *preferenceEnv) {
	limit := preference.Limit{Count: 2, Per: time.Minute}
	e.begin(App, "r", "promo", 1, limit, true)
	e.now = e.now.Add(30 * time.Second)
	e.begin(App, "r", "promo", 2, limit, true)
	e.begin(App, "r", "promo", 3, limit, false)
	e.s = e.reopen()
	e.now = e.now.Add(30*time.Second - time.Millisecond)
	e.begin(App, "r", "promo", 3, limit, false)
	e.now = e.now.Add(time.Millisecond) // the first step began a minute ago, and refused ones are not counted
	e.begin(App, "r", "promo", 3, limit, true)
	e.begin(App, "r", "promo", 4, limit, false)
	e.begin(App, "r", "promo", 4, preference.Limit{Count: 3, Per: time.Minute}, true)
	together := make([]preference.Begun, 5)
	for i := range together {
		together[i] = preference.Begun{ID: [16]byte{byte(i)}, Recipient: []string{"s", "t"}[i%2], Category: "promo", Limit: limit}
	}
	may, err := e.s.Begin(e.Context(), App, together, e.now)
	if want := []bool{true, true, true, true, false}; err != nil || !slices.Equal(may, want) {
		e.Errorf("together %v, %v; want %v", may, err, want)
	}
}

func limitsCountOnce(e *preferenceEnv) {
	limit := preference.Limit{Count: 1, Per: time.Hour}
	for range 3 {
		e.begin(App, "r", "promo", 1, limit, true)
		e.now = e.now.Add(time.Minute)
		e.s = e.reopen()
	}
	e.begin(App, "r", "promo", 2, limit, false)
	e.begin(App, "r", "promo", 1, limit, true)
	e.now = e.now.Add(57 * time.Minute) // an hour after the first
	e.begin(App, "r", "promo", 2, limit, true)
	limit.Count = 2
	for range 3 {
		e.begin(App, "s", "promo", 1, limit, true)
	}
	e.begin(App, "s", "promo", 2, limit, true)
	e.begin(App, "s", "promo", 3, limit, false)
}

func limitsAreApart(e *preferenceEnv) {
	limit := preference.Limit{Count: 1, Per: time.Hour}
	e.begin(App, "r", "promo", 1, limit, true)
	e.begin(App, "r", "promo", 2, limit, false)
	e.begin(App, "s", "promo", 2, limit, true)
	e.begin(App, "r", "*", 2, limit, true)
	e.begin("other", "r", "promo", 2, limit, true)
	e.now = e.now.Add(30 * time.Minute)
	e.begin("other", "r", "promo", 3, preference.Limit{Count: 1, Per: time.Minute}, true) // deletes entries that this app's shorter limit no longer counts
	e.begin(App, "r", "promo", 3, limit, false)
}

func preferencesAreErased(e *preferenceEnv) {
	limit := preference.Limit{Count: 1, Per: time.Hour}
	for _, r := range []string{"r", "s"} {
		e.set(App, r, noPromo)
		e.begin(App, r, "promo", 1, limit, true)
	}
	e.set("other", "r", noPromo)
	for _, want := range []int{1, 0} {
		if n, err := e.s.EraseRecipient(e.Context(), App, "r"); err != nil || n != want {
			e.Errorf("erased %d, %v; want %d", n, err, want)
		}
	}
	e.want(App, "r", preference.Preferences{})
	e.want(App, "s", noPromo)
	e.want("other", "r", noPromo)
	e.begin(App, "r", "promo", 2, limit, true)
	e.begin(App, "s", "promo", 2, limit, false)
}

func begunIsPruned(e *preferenceEnv) {
	limit := preference.Limit{Count: 1, Per: 24 * time.Hour}
	for i := range byte(5) {
		e.begin(App, fmt.Sprint("r", i), "promo", 1, limit, true)
	}
	prune := func(want int) {
		e.Helper()
		n := 0
		for more := true; more; n++ {
			var err error
			if more, err = e.s.PruneBegun(e.Context(), e.now, 2); err != nil {
				e.Fatal(err)
			}
		}
		if n != want {
			e.Errorf("pruned in %d slices, want %d", n, want)
		}
	}
	e.now = e.now.Add(24*time.Hour - time.Millisecond)
	prune(1)
	e.begin(App, "r1", "promo", 2, limit, false)
	e.now = e.now.Add(time.Millisecond)
	prune(3)
	e.begin(App, "r1", "promo", 2, limit, true)
}

// RunTwoPreferences tests two stores of preferences on one database.
func RunTwoPreferences(t *testing.T, open Two[PreferenceStore]) {
	t.Helper()
	t.Run("WhatIsSaidToOneTheOtherKnows", func(t *testing.T) {
		a, b := open(t, testclock.New().Now)
		e := &preferenceEnv{T: t, s: a}
		e.set(App, "r", noPromo)
		e.s = b
		e.want(App, "r", noPromo)
		e.set(App, "r", atNight)
		e.s = a
		e.want(App, "r", atNight)
	})
	t.Run("ALimitHoldsForBoth", func(t *testing.T) {
		clock := testclock.New()
		a, b := open(t, clock.Now)
		stores, now, limit := [2]PreferenceStore{a, b}, clock.Now(), preference.Limit{Count: 1, Per: time.Hour}
		rounds := thorough.Rounds(25, 100)
		var begun atomic.Int64
		for round := range rounds {
			atOnce(4, 1, func(caller, _ int) {
				steps := make([]preference.Begun, 2) // each recipient is used by all callers, twice
				for i := range steps {
					steps[i] = preference.Begun{
						ID: [16]byte{byte(caller), byte(round), byte(i)}, Recipient: fmt.Sprint("r", (round+i)%rounds), Category: "promo", Limit: limit,
					}
				}
				if caller%2 == 0 { // in any order
					slices.Reverse(steps)
				}
				may, err := stores[caller%2].Begin(t.Context(), App, steps, now)
				if err != nil {
					t.Error(err)
				}
				for _, ok := range may {
					if ok {
						begun.Add(1)
					}
				}
			})
		}
		if n := begun.Load(); n != int64(rounds) {
			t.Errorf("%d steps have begun for %d recipients, of which each may get one", n, rounds)
		}
	})
}
