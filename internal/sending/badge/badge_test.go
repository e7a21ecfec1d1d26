package badge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/sending/badge"
	"godwit.dev/godwit/internal/sending/push"
)

// world is an app with inboxes, channels and devices.
type world struct {
	*testing.T
	service *badge.Service
	start   time.Time

	mu      sync.Mutex
	on      map[push.Channel]bool // channels whose settings show the number
	unseen  map[string]int
	devices map[string][]audience.Endpoint // by recipient
	fails   error
	got     []string // time, address and number
	ended   []string
}

// run runs a test in a bubble whose time moves by itself.
func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, start: time.Now(), on: map[push.Channel]bool{push.APNs: true, push.FCM: true}, unseen: map[string]int{}, devices: map[string][]audience.Endpoint{}}
		w.service = badge.New(badge.Config{Inboxes: w, Channels: w, Endpoints: w, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.service.Run(ctx) })
		defer running.Wait()
		defer cancel()
		test(w)
	})
}

func (w *world) InboxesUsed() bool { return true }

func (w *world) InboxCounts(_ context.Context, _, recipient string) (c inbox.Counts, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, has := w.unseen[recipient]
	if has {
		c.Revision, c.Unseen = 1, n
	}
	return c, nil
}

func (w *world) Has(_ string, ch push.Channel, setting string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return setting == "badge" && w.on[ch]
}

func (w *world) Sender(context.Context, string, push.Channel) (push.Sender, error) { return w, nil }

// Send implements push.Sender.
func (w *world) Send(_ context.Context, r push.Request) (push.Receipt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, fmt.Sprintf("%s %s %d", time.Since(w.start), r.Address, *r.Badge))
	if !r.BadgeOnly || r.Collapse == "" || r.Content.Title != "" {
		w.Errorf("the message is %+v", r)
	}
	return push.Receipt{}, w.fails
}

func (w *world) EndpointsOf(_ context.Context, _, recipient string) ([]audience.Endpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.devices[recipient]), nil
}

func (w *world) DisableEndpoint(_ context.Context, _ int64, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, reason)
	return nil
}

// change changes the world while the service runs.
func (w *world) change(to func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to()
}

func (w *world) device(recipient string, ch push.Channel, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.devices[recipient] = append(w.devices[recipient], audience.Endpoint{
		App: "shop", Recipient: recipient, Channel: ch, Address: json.RawMessage(address), Status: audience.Active,
	})
}

// moves changes a recipient's count otherwise than by an item that comes.
func (w *world) moves(recipient string, unseen int) {
	w.mu.Lock()
	w.unseen[recipient] = unseen
	w.mu.Unlock()
	w.service.Changed([]inbox.Change{{App: "shop", Recipient: recipient, Count: inbox.Count{Unseen: unseen}, Moved: true}})
}

func (w *world) want(what string, got ...string) {
	w.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.got, got) {
		w.Errorf("%s: devices got %q, want %q", what, w.got, got)
	}
	w.got = nil
}

func TestChangesOfAMomentAreOneMessage(t *testing.T) {
	run(t, func(w *world) {
		w.device("ann", push.APNs, "iphone")
		w.device("ann", push.FCM, "android")
		w.device("ann", push.WebPush, "browser")
		w.moves("ann", 3)
		time.Sleep(time.Second)
		w.moves("ann", 0)
		time.Sleep(time.Minute)
		w.want("two changes", "2s iphone 0", "2s android 0")
	})
}

func TestNobodyElseGetsAMessage(t *testing.T) {
	run(t, func(w *world) {
		w.device("ann", push.APNs, "iphone")
		w.device("bob", push.WebPush, "browser")
		w.change(func() {
			w.devices["cid"] = []audience.Endpoint{{App: "shop", Channel: push.APNs, Status: audience.Disabled}}
		})
		w.moves("bob", 1)
		w.moves("cid", 1)
		w.moves("dan", 1)
		w.change(func() { w.unseen["ann"] = 1 })
		w.service.Changed([]inbox.Change{{App: "shop", Recipient: "ann", Count: inbox.Count{Unseen: 1}}}) // an item came, and brings the number itself
		time.Sleep(time.Minute)
		w.want("no device, or no change")
		w.change(func() { w.on = nil })
		w.moves("ann", 0)
		time.Sleep(time.Minute)
		w.want("an app that does not show it")
	})
}

func TestMessagesArePaced(t *testing.T) {
	run(t, func(w *world) {
		w.device("ann", push.APNs, "iphone")
		for n := range 60 {
			w.moves("ann", n)
			time.Sleep(time.Minute)
		}
		w.want("a change a minute", "2s iphone 0", "1m2s iphone 1", "2m2s iphone 2", "20m2s iphone 20", "40m2s iphone 40")
		time.Sleep(24 * time.Hour)
		w.want("afterwards", "1h0m2s iphone 59")
		w.moves("ann", 7)
		w.moves("ann", 8)
		time.Sleep(time.Minute)
		w.want("a day later", "25h0m2s iphone 8")
	})
}

func TestMessagesOfOtherNodesCount(t *testing.T) {
	run(t, func(w *world) {
		w.device("ann", push.APNs, "iphone")
		for range 3 {
			if err := w.service.Heard([]byte(`{"app":"shop","recipient":"ann"}`)); err != nil {
				t.Fatal(err)
			}
		}
		w.moves("ann", 5)
		time.Sleep(time.Hour)
		w.want("three were sent elsewhere", "20m0s iphone 5")
	})
}

func TestRefusalsAreHeeded(t *testing.T) {
	run(t, func(w *world) {
		w.device("ann", push.APNs, "iphone")
		w.change(func() { w.fails = &push.RetryError{Reason: "busy"} })
		w.moves("ann", 1)
		time.Sleep(3 * time.Second)
		w.want("the provider is busy", "2s iphone 1")
		w.change(func() { w.fails = nil })
		time.Sleep(time.Minute)
		w.want("once more", "4s iphone 1")
		w.change(func() { w.fails = &push.ConfigError{Reason: "the key is refused"} })
		w.moves("ann", 2)
		time.Sleep(3 * time.Second)
		w.want("the key is refused", "1m5s iphone 2")
		w.device("bob", push.APNs, "other")
		w.moves("bob", 2)
		time.Sleep(time.Minute)
		w.want("the channel rests")
		time.Sleep(5 * time.Minute)
		w.change(func() { w.fails = &push.GoneError{Reason: "removed"} })
		w.moves("bob", 3)
		time.Sleep(time.Minute)
		w.want("the device is gone", "7m8s other 3")
		if !slices.Equal(w.ended, []string{"removed"}) {
			t.Errorf("ended %q", w.ended)
		}
	})
}

func TestMessagesOfTheAppCarryTheNumber(t *testing.T) {
	run(t, func(w *world) {
		w.change(func() { w.unseen["ann"] = 4 })
		for who, want := range map[string]string{"ann": "4", "nobody": "none"} {
			got := "none"
			if n := w.service.Badge(t.Context(), "shop", who, push.APNs); n != nil {
				got = fmt.Sprint(*n)
			}
			if got != want {
				t.Errorf("badge for %s is %s, want %s", who, got, want)
			}
		}
		w.change(func() { w.on = nil })
		if n := w.service.Badge(t.Context(), "shop", "ann", push.APNs); n != nil {
			t.Errorf("an app that does not show it gets %d", *n)
		}
	})
}
