package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// EndpointStore is a store of endpoints under test, with the methods for people and for campaigns.
type EndpointStore interface {
	endpoint.Store
	MoveEndpoint(ctx context.Context, number int64, address json.RawMessage) error
	SelectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)
}

// OpenEndpoints opens an empty store with the clock now for one test; reopen closes and reopens it. The test's cleanup closes it.
type OpenEndpoints func(t *testing.T, now func() time.Time) (s EndpointStore, reopen func() EndpointStore)

// RunEndpoints runs the conformance suite of endpoint stores.
func RunEndpoints(t *testing.T, open OpenEndpoints) {
	t.Helper()
	for name, run := range map[string]func(e *endpointEnv){
		"AnEndpointIsFoundByItsAddress":                  foundByAddress,
		"NamesOfTagsAndAttributesAreListed":              namesAreListed,
		"WhatIsRegisteredIsThere":                        endpointIsThere,
		"AnAddressIsOneEndpoint":                         addressIsOneEndpoint,
		"ATokenOfAFormerVersionIsTheSameDevice":          formerSpelling,
		"ANameOfAChatIsOneHoweverItIsWritten":            chatNames,
		"AnotherSubscribersAddressIsRefused":             strangersAddressIsRefused,
		"AnIDOfAnotherIsRefused":                         idOfAnotherIsRefused,
		"OneBadRegistrationSpoilsNoOther":                badRegistrationIsAlone,
		"ChangesAreFoundAndRefusedChangesAreNot":         changesAreFound,
		"DisabledEndpointsAreKeptAndNotSelected":         disabledAreNotSelected,
		"MovedEndpointsAreReachedAtTheirNewAddress":      movedEndpoints,
		"ErasingARecipientLeavesNothingOfIt":             erasedRecipient,
		"NothingCrossesApps":                             endpointsOfApps,
		"NumbersAreNotUsedTwice":                         numbersAreNotReused,
		"NamesAreLimited":                                namesAreLimited,
		"EndpointsThatComeAndGoNeitherShiftNorDouble":    enumerationIsStable,
		"RandomAudiencesAgreeWithTheirMeaning":           audiencesAgree,
		"MetricsTellHowManyThereAre":                     endpointMetrics,
		"GainsAndLossesAreCountedByTheDay":               endpointDays,
		"TimesOfAnotherServiceAreKept":                   importedTimes,
		"ARareConditionEndsWithShortPagesNotLongQueries": shortPages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &endpointEnv{T: t, clock: testclock.New()}
			e.s, e.reopen = open(t, e.clock.Now)
			run(e)
		})
	}
}

// endpointEnv is one test's store, with the suite's helpers.
type endpointEnv struct {
	*testing.T
	clock  *testclock.Clock
	s      EndpointStore
	reopen func() EndpointStore
}

// chat returns a back end's registration of a Telegram chat.
func chat(n int, change ...func(*audience.Endpoint)) audience.Registration {
	r := audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
		Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, n)),
	}}
	for _, f := range change {
		f(&r.Endpoint)
	}
	return r
}

func recipient(name string) func(*audience.Endpoint) {
	return func(e *audience.Endpoint) { e.Recipient = name }
}

func tags(list ...string) func(*audience.Endpoint) {
	return func(e *audience.Endpoint) { e.Tags = list }
}

func attributes(a audience.Attributes) func(*audience.Endpoint) {
	return func(e *audience.Endpoint) { e.Attributes = a }
}

func (e *endpointEnv) check(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// register registers what must succeed.
func (e *endpointEnv) register(app string, regs ...audience.Registration) []audience.Endpoint {
	e.Helper()
	done, err := e.s.Register(e.Context(), app, regs)
	e.check(err)
	if len(done) != len(regs) {
		e.Fatalf("%d results of %d registrations", len(done), len(regs))
	}
	list := make([]audience.Endpoint, len(done))
	for i, d := range done {
		e.check(d.Err)
		list[i] = d.Endpoint
	}
	return list
}

func endpointIsThere(e *endpointEnv) {
	id := audience.NewUUID()
	_, hash := audience.NewToken()
	want := audience.Endpoint{
		ID: id, Channel: push.WebPush, Recipient: "ada", Address: json.RawMessage(`{"endpoint":"https://a.example/","keys":{"p256dh":"x","auth":"y"}}`),
		Tags: []string{"news", "vip"}, Attributes: audience.Attributes{"age": audience.Number(42), "city": audience.Text("Oslo"), "ok": audience.Bool(true)},
		Locale: "nb-NO", Timezone: "Europe/Oslo", Token: hash,
	}
	made, err := e.s.Register(e.Context(), App, []audience.Registration{{Endpoint: want}})
	e.check(err)
	now := e.clock.Now()
	want.Number, want.App, want.Status = made[0].Endpoint.Number, App, audience.Active
	want.CreatedAt, want.UpdatedAt, want.LastSeenAt = now, now, now
	if !made[0].Created || made[0].Err != nil || !reflect.DeepEqual(made[0].Endpoint, want) {
		e.Errorf("registered %+v", made[0])
	}
	e.s = e.reopen()
	got, err := e.s.Endpoint(e.Context(), App, id)
	if e.check(err); !reflect.DeepEqual(got, want) {
		e.Errorf("read  %+v\nwrote %+v", got, want)
	}
	of, err := e.s.EndpointsOf(e.Context(), App, "ada")
	if e.check(err); len(of) != 1 || !reflect.DeepEqual(of[0], want) {
		e.Errorf("ada has %+v", of)
	}
	if bare := e.register(App, chat(1))[0]; bare.ID == (audience.ID{}) || bare.Number <= want.Number {
		e.Errorf("made %+v", bare)
	}
	if of, err := e.s.EndpointsOf(e.Context(), App, ""); err != nil || len(of) != 0 {
		e.Errorf("nobody has %+v, %v", of, err)
	}
}

func addressIsOneEndpoint(e *endpointEnv) {
	first := e.register(App, chat(1, tags("a"), attributes(audience.Attributes{"n": audience.Number(1)}), recipient("ada")))[0]
	e.check(e.s.DisableEndpoint(e.Context(), first.Number, "blocked"))
	e.clock.Advance(time.Hour)
	done, err := e.s.Register(e.Context(), App, []audience.Registration{chat(1, tags("b")), chat(1), chat(2)})
	e.check(err)
	for i, created := range []bool{false, false, true} {
		if done[i].Err != nil || done[i].Created != created {
			e.Errorf("registration %d: %+v", i, done[i])
		}
	}
	got, err := e.s.Endpoint(e.Context(), App, first.ID)
	e.check(err)
	if got.Number != first.Number || got.Status != audience.Active || got.DisabledReason != "" || !slices.Equal(got.Tags, []string{"b"}) || got.Recipient != "ada" ||
		len(got.Attributes) != 1 || !got.LastSeenAt.Equal(e.clock.Now()) || !got.CreatedAt.Equal(first.CreatedAt) {
		e.Errorf("renewed %+v", got)
	}
	if n := e.selected(App, audience.Audience{TagsAny: []string{"a"}}, 10); len(n) != 0 {
		e.Errorf("the former tag finds %v", n)
	}
	if n := e.selected(App, audience.Audience{TagsAny: []string{"b"}, Where: "n = 1"}, 10); len(n) != 1 {
		e.Errorf("the new tag finds %v", n)
	}
}

func strangersAddressIsRefused(e *endpointEnv) {
	first := e.register(App, chat(1, tags("a")))[0]
	stranger := chat(1, tags("b"))
	stranger.Trusted = false
	done, err := e.s.Register(e.Context(), App, []audience.Registration{stranger})
	e.check(err)
	if !errors.Is(done[0].Err, audience.ErrTaken) {
		e.Errorf("a stranger's registration: %+v", done[0])
	}
	if got, err := e.s.Endpoint(e.Context(), App, first.ID); err != nil || !slices.Equal(got.Tags, []string{"a"}) {
		e.Errorf("%+v, %v", got, err)
	}
}

func idOfAnotherIsRefused(e *endpointEnv) {
	first := e.register(App, chat(1))[0]
	withID := func(x *audience.Endpoint) { x.ID = first.ID }
	done, err := e.s.Register(e.Context(), App, []audience.Registration{chat(2, withID), chat(1, withID)})
	e.check(err)
	if !errors.Is(done[0].Err, audience.ErrTaken) || done[1].Err != nil || done[1].Created {
		e.Errorf("results %+v", done)
	}
	theirs := e.register("other", chat(4))[0]
	if _, err := e.s.UpdateEndpoint(e.Context(), App, e.register(App, chat(5))[0].ID, true, func(x *audience.Endpoint) error {
		x.Address = theirs.Address
		return nil
	}); err != nil {
		e.Errorf("an address that only another app has: %v", err)
	}
	if _, err := e.s.UpdateEndpoint(e.Context(), App, e.register(App, chat(3))[0].ID, true, func(x *audience.Endpoint) error {
		x.Address = first.Address
		return nil
	}); !errors.Is(err, audience.ErrTaken) {
		e.Errorf("taking another's address: %v", err)
	}
}

func badRegistrationIsAlone(e *endpointEnv) {
	var regs []audience.Registration
	for n := range 350 {
		regs = append(regs, chat(n+1, tags("all")))
	}
	e.register(App, chat(200))
	regs[199].Trusted = false
	done, err := e.s.Register(e.Context(), App, regs)
	e.check(err)
	for i, d := range done {
		if (d.Err != nil) != (i == 199) {
			e.Errorf("registration %d: %v", i, d.Err)
		}
	}
	if n := e.selected(App, audience.Audience{TagsAny: []string{"all"}}, 100); len(n) != 349 {
		e.Errorf("%d are there, want 349", len(n))
	}
}

func changesAreFound(e *endpointEnv) {
	x := e.register(App, chat(1, tags("a", "b"), attributes(audience.Attributes{"city": audience.Text("Oslo"), "age": audience.Number(1)})))[0]
	e.clock.Advance(time.Minute)
	got, err := e.s.UpdateEndpoint(e.Context(), App, x.ID, true, func(x *audience.Endpoint) error {
		x.Tags, x.Attributes, x.Recipient = []string{"b", "c"}, audience.Attributes{"city": audience.Number(5), "new": audience.Bool(true)}, "ada"
		return nil
	})
	e.check(err)
	if !got.UpdatedAt.Equal(e.clock.Now()) || !got.LastSeenAt.Equal(x.LastSeenAt) {
		e.Errorf("changed %+v", got)
	}
	for where, want := range map[string]int{
		`tags contains "a"`: 0, `tags contains "b"`: 1, `tags contains "c"`: 1, `city = "Oslo"`: 0, `city = 5`: 1, `exists age`: 0, `new = true`: 1,
		`recipient = "ada"`: 1,
	} {
		if n := e.selected(App, audience.Audience{Where: where}, 10); len(n) != want {
			e.Errorf("%s finds %v", where, n)
		}
	}
	refused := errors.New("no")
	if _, err := e.s.UpdateEndpoint(e.Context(), App, x.ID, true, func(x *audience.Endpoint) error {
		x.Tags = nil
		return refused
	}); !errors.Is(err, refused) {
		e.Errorf("a refused change: %v", err)
	}
	if again, err := e.s.Endpoint(e.Context(), App, x.ID); err != nil || !reflect.DeepEqual(again, got) {
		e.Errorf("after a refused change: %+v, %v", again, err)
	}
	e.check(e.s.DeleteEndpoint(e.Context(), App, x.ID))
	for _, err := range []error{
		e.s.DeleteEndpoint(e.Context(), App, x.ID), func() error { _, err := e.s.Endpoint(e.Context(), App, x.ID); return err }(),
		func() error {
			_, err := e.s.UpdateEndpoint(e.Context(), App, x.ID, true, func(*audience.Endpoint) error { return nil })
			return err
		}(),
	} {
		if !errors.Is(err, audience.ErrNotFound) {
			e.Errorf("a deleted endpoint: %v", err)
		}
	}
	if n := e.selected(App, audience.Audience{TagsAny: []string{"b", "c"}}, 10); len(n) != 0 {
		e.Errorf("deleted, and found: %v", n)
	}
}

func disabledAreNotSelected(e *endpointEnv) {
	list := e.register(App, chat(1, tags("a")), chat(2, tags("a")), chat(3, recipient("ada"), attributes(audience.Attributes{"n": audience.Number(1)})))
	e.check(e.s.DisableEndpoint(e.Context(), list[0].Number, "blocked by the user"))
	e.check(e.s.DisableEndpoint(e.Context(), list[0].Number, "again"))
	e.check(e.s.DisableEndpoint(e.Context(), list[2].Number, strings.Repeat("é", 500)))
	e.check(e.s.DisableEndpoint(e.Context(), 1<<40, "never was"))
	for where, want := range map[string]int{``: 1, `tags contains "a"`: 1, `n = 1`: 0, `recipient = "ada"`: 0} {
		if n := e.selected(App, audience.Audience{Where: where}, 10); len(n) != want {
			e.Errorf("%q finds %v", where, n)
		}
	}
	got, err := e.s.Endpoint(e.Context(), App, list[0].ID)
	if e.check(err); got.Status != audience.Disabled || got.DisabledReason != "blocked by the user" || !slices.Equal(got.Tags, []string{"a"}) {
		e.Errorf("disabled %+v", got)
	}
	if got, err := e.s.Endpoint(e.Context(), App, list[2].ID); err != nil || len(got.DisabledReason) > audience.MaxReason {
		e.Errorf("a long reason: %d bytes, %v", len(got.DisabledReason), err)
	}
	active, disabled, err := e.s.EndpointCounts(e.Context(), App)
	if e.check(err); active[push.Telegram] != 1 || disabled[push.Telegram] != 2 {
		e.Errorf("counts %v %v", active, disabled)
	}
	for _, c := range []struct {
		status audience.Status
		where  string
		want   []int64
		named  audience.Audience
	}{
		{status: "", want: numbersOf(list)},
		{status: "", named: audience.Audience{Channels: []push.Channel{push.Telegram}}, want: numbersOf(list)},
		{status: audience.Active, named: audience.Audience{Channels: []push.Channel{push.Telegram}}, want: []int64{list[1].Number}},
		{status: audience.Disabled, named: audience.Audience{Channels: []push.Channel{push.Telegram}, TagsAll: []string{"a"}}, want: []int64{list[0].Number}},
		{status: "", named: audience.Audience{Channels: []push.Channel{push.Webhook}}},
		{status: "", named: audience.Audience{Recipients: []string{"ada"}}, want: []int64{list[2].Number}},
		{status: audience.Active, named: audience.Audience{Recipients: []string{"ada"}}},
		{status: "", named: audience.Audience{Endpoints: []string{list[2].ID.String(), list[0].ID.UUID()}}, want: []int64{list[0].Number, list[2].Number}},
		{status: audience.Disabled, named: audience.Audience{Endpoints: []string{list[1].ID.String(), list[0].ID.String()}, TagsAll: []string{"a"}}, want: []int64{list[0].Number}},
		{status: "", named: audience.Audience{Endpoints: []string{list[2].ID.String()}, Recipients: []string{"bob"}}},
		{status: audience.Disabled, where: "", want: []int64{list[0].Number, list[2].Number}},
		{status: audience.Active, where: "", want: []int64{list[1].Number}},
		{status: "", where: `tags contains "a"`, want: []int64{list[0].Number, list[1].Number}},
		{status: audience.Disabled, where: `n = 1`, want: []int64{list[2].Number}},
		{status: audience.Active, where: `tags contains "a"`, want: []int64{list[1].Number}},
	} {
		var got []int64
		after := int64(0)
		for more := true; more; {
			var page []audience.Endpoint
			if c.where != "" {
				c.named.Where = c.where
			}
			page, after, more, err = e.s.ListEndpoints(e.Context(), App, c.status, e.selection(c.named), after, 1)
			e.check(err)
			got = append(got, numbersOf(page)...)
		}
		if !slices.Equal(got, c.want) {
			e.Errorf("%q %q lists %v, want %v", c.status, c.where, got, c.want)
		}
	}
}

func movedEndpoints(e *endpointEnv) {
	list := e.register(App, chat(1), chat(2))
	e.check(e.s.MoveEndpoint(e.Context(), list[0].Number, json.RawMessage(`{"chat_id":-1001}`)))
	if got := e.register(App, chat(-1001))[0]; got.Number != list[0].Number {
		e.Errorf("the new address is that of %+v", got)
	}
	if got := e.register(App, chat(1))[0]; got.Number <= list[1].Number {
		e.Errorf("the former address is still that of %+v", got)
	}
	e.check(e.s.MoveEndpoint(e.Context(), list[1].Number, json.RawMessage(`{"chat_id":-1001}`)))
	if got, err := e.s.Endpoint(e.Context(), App, list[1].ID); err != nil || got.Status != audience.Disabled {
		e.Errorf("one that moved to another's address: %+v, %v", got, err)
	}
}

func erasedRecipient(e *endpointEnv) {
	e.register(App, chat(1, recipient("ada"), tags("a")), chat(2, recipient("bob"), tags("a")), chat(3, recipient("ada")), chat(4))
	e.register("other", chat(1, recipient("ada")))
	for _, want := range []int{2, 0} {
		if n, err := e.s.EraseRecipient(e.Context(), App, "ada"); err != nil || n != want {
			e.Errorf("erased %d, %v; want %d", n, err, want)
		}
	}
	if n := len(e.selected(App, audience.Audience{}, 10)); n != 2 {
		e.Errorf("%d are left", n)
	}
	if n := len(e.selected(App, audience.Audience{TagsAny: []string{"a"}}, 10)); n != 1 {
		e.Errorf("%d with the tag are left", n)
	}
	if n := len(e.selected("other", audience.Audience{}, 10)); n != 1 {
		e.Errorf("the other app has %d left", n)
	}
}

func endpointsOfApps(e *endpointEnv) {
	mine := e.register(App, chat(1, tags("a"), recipient("ada")))[0]
	if theirs := e.register("other", chat(1, tags("a", "b")))[0]; theirs.ID == mine.ID || theirs.Number == mine.Number {
		e.Fatalf("two apps share %+v", theirs)
	}
	if _, err := e.s.Endpoint(e.Context(), "other", mine.ID); !errors.Is(err, audience.ErrNotFound) {
		e.Errorf("read by another app: %v", err)
	}
	if err := e.s.DeleteEndpoint(e.Context(), "other", mine.ID); !errors.Is(err, audience.ErrNotFound) {
		e.Errorf("deleted by another app: %v", err)
	}
	if n, err := e.s.EraseRecipient(e.Context(), "other", "ada"); err != nil || n != 0 {
		e.Errorf("erased by another app: %d, %v", n, err)
	}
	for _, a := range []audience.Audience{{}, {TagsAny: []string{"a"}}, {Where: `tags contains "a"`}, {Recipients: []string{"ada"}}} {
		if got := e.selected(App, a, 10); !slices.Equal(got, []int64{mine.Number}) {
			e.Errorf("%+v finds %v", a, got)
		}
	}
	if got := e.selected(App, audience.Audience{TagsAny: []string{"b"}}, 10); len(got) != 0 {
		e.Errorf("another app's tag finds %v", got)
	}
}

func numbersAreNotReused(e *endpointEnv) {
	list := e.register(App, chat(1), chat(2))
	e.check(e.s.DeleteEndpoint(e.Context(), App, list[1].ID))
	e.s = e.reopen()
	if again := e.register(App, chat(2))[0]; again.Number <= list[1].Number || again.ID == list[1].ID {
		e.Errorf("number %d is used again: %+v", list[1].Number, again)
	}
}

// namesAreLimited uses up an app's names of attributes. Anonymous subscribers begin; their share is half.
func namesAreLimited(e *endpointEnv) {
	const all = audience.MaxAttributeNames
	named := func(n int) func(*audience.Endpoint) {
		return attributes(audience.Attributes{fmt.Sprintf("a%d", n): audience.Number(1)})
	}
	try := func(trusted bool, from, to int) (refused int) {
		var regs []audience.Registration
		for n := from; n < to; n++ {
			r := chat(n+1, named(n))
			r.Trusted = trusted
			regs = append(regs, r)
		}
		done, err := e.s.Register(e.Context(), App, regs)
		e.check(err)
		for _, d := range done {
			if d.Err == nil {
				continue
			}
			var bad *notification.FieldError
			if refused++; !errors.As(d.Err, &bad) || bad.Field != "attributes" {
				e.Errorf("one name too many: %v", d.Err)
			}
		}
		return refused
	}
	if n := try(false, 0, all/2+10); n != 10 {
		e.Errorf("%d of strangers are refused, want 10", n)
	}
	if n := try(true, all/2, all+5); n != 5 {
		e.Errorf("%d of the back end are refused, want 5", n)
	}
	e.register("other", chat(1, named(all)))
	// An unused name becomes free, if not immediately.
	e.check(e.s.DeleteEndpoint(e.Context(), App, e.register(App, chat(1))[0].ID))
	e.clock.Advance(time.Hour)
	if n := try(true, all, all+2); n != 1 {
		e.Errorf("%d are refused after one has gone, want 1", n)
	}
	if got := e.selected(App, audience.Audience{Where: fmt.Sprintf("exists a%d and not exists a0", all)}, 10); len(got) != 1 {
		e.Errorf("the new name finds %v", got)
	}
	if got := e.selected(App, audience.Audience{Where: "a7 = 1"}, 10); len(got) != 1 {
		e.Errorf("a former name finds %v", got)
	}
}
