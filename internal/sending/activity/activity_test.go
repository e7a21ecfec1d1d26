package activity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/activity"
	"godwit.dev/godwit/internal/sending/push"
)

// world is an app with objects and running activities.
type world struct {
	*testing.T
	service *activity.Service
	start   time.Time

	mu        sync.Mutex
	objects   map[object.Key]object.State
	endpoints map[int64]*audience.Endpoint
	reads     int
	got       []string // time, token and message
	answer    func(u *push.ActivityUpdate) error
	sending   func() // called during each update
}

// run runs a test in a bubble whose time moves by itself.
func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, start: time.Now(), objects: map[object.Key]object.State{}, endpoints: map[int64]*audience.Endpoint{}}
		w.service = w.node()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.service.Run(ctx) })
		defer running.Wait()
		defer cancel()
		test(w)
	})
}

func (w *world) node() *activity.Service {
	return activity.New(activity.Config{Endpoints: w, Objects: w, Channels: w, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

var ride = object.Key{Group: "rides", Object: "r1"}

// put stores a version of the ride; payload empty: it becomes unknown.
func (w *world) put(payload string) {
	w.mu.Lock()
	st := w.objects[ride]
	next, _, err := st.Apply(&object.Put{Payload: []byte(payload), Unknown: payload == "", ContentType: "application/json"}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	w.objects[ride] = next
	w.mu.Unlock()
	w.service.Changed([]objectstore.Change{{App: "shop", Key: ride, State: &next}})
}

// follow registers an activity.
func (w *world) follow(token string) *audience.Endpoint {
	w.mu.Lock()
	number := int64(len(w.endpoints) + 1)
	e := &audience.Endpoint{
		Number: number, App: "shop", Channel: push.LiveActivity, Status: audience.Active, LastSeenAt: time.Now(),
		Address: []byte(`{"token":"` + token + `","group":"rides","object":"r1"}`),
	}
	e.ID[15] = byte(number)
	if err := e.CheckBesideAddress(); err != nil {
		w.Fatal(err)
	}
	w.endpoints[number] = e
	one := *e
	w.mu.Unlock()
	w.service.Followed(&one)
	return e
}

func (w *world) Get(_ context.Context, _ string, keys []object.Key) (states []object.State, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		states = append(states, w.objects[k])
	}
	return states, nil
}

func (w *world) EndpointCounts(context.Context, string) (active, disabled map[push.Channel]int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return map[push.Channel]int64{push.LiveActivity: int64(len(w.endpoints))}, nil, nil
}

func (w *world) ListEndpoints(_ context.Context, _ string, status audience.Status, sel *audience.Selection, _ int64, _ int) (list []audience.Endpoint, next int64, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(w.endpoints)) {
		if e := w.endpoints[number]; (status == "" || e.Status == status) && sel.Match(e) {
			list = append(list, *e)
		}
	}
	return list, 0, false, nil
}

func (w *world) UpdateEndpoint(_ context.Context, _ string, id audience.ID, _ bool, change func(*audience.Endpoint) error) (audience.Endpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.endpoints[int64(id[15])]
	if e == nil {
		return audience.Endpoint{}, audience.ErrNotFound
	}
	err := change(e)
	return *e, err
}

func (w *world) DeleteEndpoint(_ context.Context, _ string, id audience.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.endpoints, int64(id[15]))
	return nil
}

func (w *world) DisableEndpoint(_ context.Context, number int64, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endpoints[number].Status, w.endpoints[number].DisabledReason = audience.Disabled, reason
	return nil
}

func (w *world) Register(context.Context, string, []audience.Registration) ([]audience.Registered, error) {
	return nil, errors.New("not here")
}

func (w *world) Apps(push.Channel) []string { return []string{"shop"} }

func (w *world) Has(app string, _ push.Channel, _ string) bool { return app == "shop" }

func (w *world) Sender(context.Context, string, push.Channel) (push.Sender, error) { return w, nil }

func (w *world) Send(context.Context, push.Request) (push.Receipt, error) {
	return push.Receipt{}, errors.New("not here")
}

func (w *world) UpdateActivity(_ context.Context, u *push.ActivityUpdate) error {
	w.mu.Lock()
	said := string(u.State)
	if u.End {
		said += " end"
	}
	w.got = append(w.got, fmt.Sprintf("%s %s %s", time.Since(w.start), (&audience.Endpoint{Address: u.Address}).Activity().Token, said))
	answer, during := w.answer, w.sending
	w.mu.Unlock()
	if during != nil {
		during()
	}
	if answer != nil {
		return answer(u)
	}
	return nil
}

func (w *world) want(want ...string) {
	w.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.got, want) {
		w.Errorf("activities were told\n%q, want\n%q", w.got, want)
	}
}

func TestEachVersionReachesTheActivitiesOfItsObject(t *testing.T) {
	run(t, func(w *world) {
		w.put(`{"eta":4}`)
		w.follow("aa")
		w.want(`0s aa {"eta":4}`)
		time.Sleep(2 * time.Second)
		w.put(`{"eta":3,"godwit_activity":{"priority":"high"}}`)
		w.want(`0s aa {"eta":4}`, `2s aa {"eta":3}`)
		time.Sleep(5 * time.Minute)
		w.want(`0s aa {"eta":4}`, `2s aa {"eta":3}`)
	})
}

// Devices order updates by a timestamp in seconds.
func TestAnActivityGetsTheNewestVersionOnceASecond(t *testing.T) {
	run(t, func(w *world) {
		w.put(`{"eta":100}`)
		w.follow("aa")
		synctest.Wait()
		for i := range 30 {
			time.Sleep(70 * time.Millisecond)
			w.put(`{"eta":` + strconv.Itoa(i) + `}`)
		}
		time.Sleep(2 * time.Second)
		w.want(`0s aa {"eta":100}`, `1s aa {"eta":13}`, `2s aa {"eta":27}`, `3s aa {"eta":29}`)
	})
}

func TestAnActivityEndsWithItsObject(t *testing.T) {
	for end, said := range map[string]string{"": "2s aa  end", `{"eta":0,"godwit_activity":{"end":true}}`: `2s aa {"eta":0} end`} {
		run(t, func(w *world) {
			w.put(`{"eta":4}`)
			e := w.follow("aa")
			time.Sleep(2 * time.Second)
			w.put(end)
			w.want(`0s aa {"eta":4}`, said)
			if e.Status != audience.Disabled {
				w.Error("the endpoint of an activity that has ended stays active")
			}
			w.put(`{"eta":9}`)
			w.want(`0s aa {"eta":4}`, said)
			time.Sleep(25 * time.Hour)
			synctest.Wait()
			if len(w.endpoints) != 0 {
				w.Error("the endpoint of an activity that has ended stays for good")
			}
		})
	}
}

func TestWhatFailedComesLater(t *testing.T) {
	run(t, func(w *world) {
		left := 2
		w.answer = func(*push.ActivityUpdate) error {
			if left--; left >= 0 {
				return &push.RetryError{Reason: "busy"}
			}
			return nil
		}
		w.put(`{"eta":4}`)
		synctest.Wait()
		w.follow("aa")
		time.Sleep(time.Minute)
		w.want(`0s aa {"eta":4}`, `5s aa {"eta":4}`, `15s aa {"eta":4}`)
	})
}

func TestATokenThatIsGoneIsDisabledAndARefusedKeyRests(t *testing.T) {
	run(t, func(w *world) {
		w.answer = func(*push.ActivityUpdate) error { return &push.GoneError{Reason: "unregistered"} }
		w.put(`{"eta":4}`)
		if e := w.follow("aa"); true {
			w.want(`0s aa {"eta":4}`)
			if e.Status != audience.Disabled || e.DisabledReason != "unregistered" {
				w.Errorf("the endpoint is %s: %s", e.Status, e.DisabledReason)
			}
		}
		w.answer = func(*push.ActivityUpdate) error { return &push.ConfigError{Reason: "key"} }
		w.follow("bb")
		synctest.Wait()
		w.answer = nil
		time.Sleep(time.Second)
		w.put(`{"eta":3}`)
		w.want(`0s aa {"eta":4}`, `0s bb {"eta":4}`)
		time.Sleep(6 * time.Minute)
		w.want(`0s aa {"eta":4}`, `0s bb {"eta":4}`, `5m0s bb {"eta":3}`)
	})
}

// A server that ends between a commit and the message, or another node that does, loses nothing.
func TestWhatWasNotToldIsFoundInTheStore(t *testing.T) {
	run(t, func(w *world) {
		w.put(`{"eta":4}`)
		w.follow("aa")
		synctest.Wait()
		told := w.service
		w.service = w.node() // a node that ends before it tells
		time.Sleep(30 * time.Second)
		w.put(`{"eta":3}`)
		w.service = told
		time.Sleep(31 * time.Second)
		w.want(`0s aa {"eta":4}`, `1m0s aa {"eta":3}`)
	})
}

// Two nodes that tell an activity different versions at once do not know which came last.
func TestTwoNodesAtOnceEndWithTheNewestVersion(t *testing.T) {
	run(t, func(w *world) {
		w.put(`{"eta":4}`)
		e := w.follow("aa")
		synctest.Wait()
		time.Sleep(2 * time.Second)
		w.sending = func() { // another node tells it something during the first update
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sending = nil
			all := maps.Clone(e.Attributes)
			all[audience.ToldAttribute] = audience.Text("77")
			e.Attributes = all
		}
		w.put(`{"eta":3}`)
		time.Sleep(2 * time.Second)
		w.want(`0s aa {"eta":4}`, `2s aa {"eta":3}`, `3s aa {"eta":3}`)
	})
}

func TestAnAppWithoutActivitiesIsNotReadForEachPut(t *testing.T) {
	run(t, func(w *world) {
		synctest.Wait()
		for range 100 {
			w.put(`{"eta":4}`)
			time.Sleep(10 * time.Millisecond)
		}
		if synctest.Wait(); w.reads > 2 {
			w.Errorf("%d reads for 100 puts", w.reads)
		}
	})
}
