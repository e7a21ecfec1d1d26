package jetstream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMessagesAreStoredInOrderAndAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.publish(publishes("ann", "before")...)
	w.Start(true)
	w.Gets("ann before")
	w.Becomes(source.Running, "")
	w.publish(`{"to":"ann","title":"1"}`, `{"to":"bob","title":"2"}`, `{"put":{"group":"gates","object":"a","payload":"open"}}`, `[{"topic":"news","data":7},{"to":"ann","title":"3"}]`)
	w.Gets("ann 1", "bob 2", `gates/a "open"`, "topic news 7", "ann 3")
	w.acknowledged(ours)
	eventually.True(t, "the source is not behind", func() bool { l := w.Info().Lag; return l != nil && *l == source.Lag{} })
}

func TestNothingIsAcknowledgedBeforeItIsStored(t *testing.T) {
	w := newWorld(t)
	w.Down(errors.New("disk full"))
	w.Start(true)
	w.publish(publishes("ann", "1", "2")...)
	w.Becomes(source.Failing, "disk full")
	c, err := w.stream.Consumer(t.Context(), ours)
	if err != nil || c.CachedInfo().AckFloor.Stream != 0 {
		t.Errorf("acknowledged up to %d, %v", c.CachedInfo().AckFloor.Stream, err)
	}
	w.Down(nil)
	w.Gets("ann 1", "ann 2")
	w.Becomes(source.Running, "")
}

func TestAnInvalidMessageGoesToQuarantineAlone(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	long := `{"to":"ann","title":"` + strings.Repeat("x", 256<<10) + `"}`
	w.publish(`{"to":"ann","title":"1"}`, `{"title":"nobody"}`, `[]`, `no JSON`, ``, long, `{"to":"ann","title":"2"}`)
	w.Gets("ann 1", "ann 2")
	w.acknowledged(ours)
	list := w.Quarantine(4)
	if string(list[0].Text) != `{"title":"nobody"}` || list[0].From != "ORDERS 2" || !strings.Contains(list[3].Why, "at most 262144 are allowed") || len(list[3].Text) != source.MaxSetAsideText {
		t.Errorf("in quarantine are %.300v", list)
	}
}

func TestAMessageThatIsLargerThanARequestIsFetchedAlone(t *testing.T) {
	o := options(t)
	o.MaxPayload = 8 << 20
	t.Parallel()
	w := worldOn(t, natstest.Start(t, o))
	w.publish(`{"to":"ann","title":"1"}`, strings.Repeat("x", 5<<20), `{"to":"ann","title":"2"}`)
	w.Start(true)
	w.Gets("ann 1", "ann 2")
	w.Quarantine(1)
}

func TestAFullMailboxKeepsTheOrderOfItsRecipientAndBlocksNoOther(t *testing.T) {
	w := newWorld(t)
	w.Fill("full", true)
	w.Start(true)
	w.publish(publishes("full", "1", "2")...)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.Becomes(source.Running, "2 messages wait")
	if l := w.Info().Lag; l == nil || l.Entries != 2 || l.Time <= 0 {
		t.Errorf("the lag is %+v", l)
	}
	w.publish(publishes("ann", "2")...)
	w.Gets("ann 2")
	w.Fill("full", false)
	w.publish(publishes("full", "3")...)
	w.Gets("full 1", "full 2", "full 3")
	w.acknowledged(ours)
	w.Becomes(source.Running, "")
}

func TestAMessageGoesToQuarantineAfterItsTries(t *testing.T) {
	w := newWorld(t)
	w.Fill("full", true)
	setting.Put(w.Values, jetstream.FieldTries, "2")
	w.Start(true)
	w.publish(publishes("full", "1")...)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	if list := w.Quarantine(1); string(list[0].Text) != `{"to":"full","title":"1"}` || !strings.Contains(list[0].Why, "after 2 deliveries") {
		t.Errorf("in quarantine is %v", list)
	}
	w.acknowledged(ours)
}

func TestAMessageThatIsDeliveredAgainIsADuplicate(t *testing.T) {
	w := newWorld(t)
	c := w.consumer("mine", nil)
	w.publish(publishes("ann", "1", "2")...)
	w.Start(true)
	w.Gets("ann 1", "ann 2")
	w.acknowledged("mine")
	w.Stop()
	if err := w.stream.DeleteConsumer(t.Context(), c.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	w.consumer("mine", nil)
	w.publish(publishes("ann", "3")...)
	w.Run()
	w.Gets("ann 3")
	if n := w.Info().Counts.Duplicate; n != 2 {
		t.Errorf("%d duplicates", n)
	}
}

func TestThePublishersIdIsTheNotifications(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	for i, id := range []string{"order-7", "order 7", strings.Repeat("x", 128)} {
		w.send(&nats.Msg{Subject: "orders.new", Header: nats.Header{js.MsgIDHeader: {id}}, Data: fmt.Appendf(nil, `{"to":"ann","title":"%d"}`, i)})
	}
	w.publish(`{"to":"ann","id":"own","title":"3"}`)
	w.Gets("ann 0", "ann 1", "ann 2", "ann 3")
	if ids := w.IDs(); ids["order-7"] == 0 || ids["own"] == 0 || ids["order 7"] != 0 {
		t.Error("ids of notifications are not those of the messages")
	}
}

func TestMessagesOfAFormerReaderComeBeforeNewOnes(t *testing.T) {
	for how, leave := range map[string]func(first bool, m js.Msg) error{
		"killed": func(bool, js.Msg) error { return nil },
		"stopped": func(first bool, m js.Msg) error {
			if first { // its mailbox was full
				return m.NakWithDelay(1500 * time.Millisecond)
			}
			return m.Nak()
		},
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			c := w.consumer("mine", func(cfg *js.ConsumerConfig) { cfg.AckWait = time.Second })
			w.publish(publishes("ann", "1", "2")...)
			batch, err := c.Fetch(2)
			if err != nil {
				t.Fatal(err)
			}
			first := true
			for m := range batch.Messages() {
				if err := leave(first, m); err != nil {
					t.Fatal(err)
				}
				first = false
			}
			w.publish(publishes("ann", "3", "4")...)
			w.Start(true)
			w.Becomes(source.Waiting, "2 messages were delivered before")
			w.Gets("ann 1", "ann 2", "ann 3", "ann 4")
			w.acknowledged("mine")
		})
	}
}

func TestAnObjectsVersionsFollowTheStream(t *testing.T) {
	w := newWorld(t)
	gate := object.Key{Group: "gates", Object: "a"}
	w.Start(true)
	for _, now := range []string{"open", "shut"} {
		w.publish(fmt.Sprintf(`{"put":{"group":"gates","object":"a","payload":%q}}`, now))
		w.Gets(fmt.Sprintf("gates/a %q", now))
	}
	first := w.Objects()[gate].Version
	w.acknowledged(ours)
	w.Stop()
	if err := w.stream.DeleteConsumer(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	w.Run()
	w.Set(source.Change{Resync: true}) // reads both again
	w.publish(`{"delete":{"group":"gates","object":"a"}}`)
	w.Gets("gates/a is unknown")
	if second := w.Objects()[gate].Version; first <= 0 || second <= first || second >= 1<<53 {
		t.Errorf("versions are %d and %d", first, second)
	}
}

func TestSubjectsSelectMessages(t *testing.T) {
	w := newWorld(t)
	setting.Put(w.Values, jetstream.FieldSubjects, []string{"orders.paid", "orders.eu.*"})
	w.publish(publishes("ann", "new")...)
	w.Start(true)
	w.send(&nats.Msg{Subject: "orders.paid", Data: []byte(`{"to":"ann","title":"paid"}`)})
	w.send(&nats.Msg{Subject: "orders.eu.new", Data: []byte(`{"to":"ann","title":"eu"}`)})
	w.Gets("ann paid", "ann eu")
	setting.Put(w.Values, jetstream.FieldSubjects, []string{"orders.new"})
	w.Set(source.Change{Values: w.Values})
	w.publish(publishes("ann", "new again")...)
	w.Gets("ann new again")
}

func TestANewConsumerMayBeginWithNewMessages(t *testing.T) {
	w := newWorld(t)
	w.publish(publishes("ann", "old")...)
	setting.Put(w.Values, jetstream.FieldFrom, "new")
	w.Start(true)
	w.Becomes(source.Running, "")
	w.publish(publishes("ann", "new")...)
	w.Gets("ann new")
}

func TestPrivatePlacesNeedTheOwnerOfTheDataFolder(t *testing.T) {
	w := newWorld(t)
	w.publish(publishes("ann", "1")...)
	w.Start(false)
	w.Becomes(source.Failing, "not public")
	w.Gets()
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, value, says string }{
		{"url", "", "url: is required"},
		{"url", "http://h:1", "is not a URL like nats://"},
		{"url", "nats://h:1/secret", "is not a URL like nats://"},
		{"url", "nats://secret@h:1", "must not contain a user or token"},
		{"url", "nats://h:1,nats://u:secret@h", "must not contain a user or token"},
		{"url", "nats://h:99999", "has no valid port"},
		{"url", "nats://[::]:1", "names no host"},
		{"stream", "", "stream: is required"},
		{"stream", "a.b", "must have 1 to 128 letters"},
		{"consumer", "a b", "must have 1 to 128 letters"},
		{"from", "yesterday", "must be all or new"},
		{"tries", "0", "must be a number from 1"},
		{"domain", "a..b", "must have 1 to 128"},
		{"inbox", "x.>", "must have 1 to 128"},
		{"credentials", "secret", "has no JWT and seed"},
		{"nkey", "secret", "has no seed"},
		{"ca", "secret", "has no certificate in PEM"},
	} {
		v := setting.Values{}
		setting.Put(v, "url", "nats://h:1")
		setting.Put(v, "stream", "S")
		setting.Put(v, c.field, c.value)
		if err := (jetstream.Kind{}).Check(v); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%q: %v", c.field, c.value, err)
		}
	}
	for subject, fine := range map[string]bool{"a": true, "a.*.b": true, "a.>": true, "": false, "a..b": false, ">.a": false, "a b": false, "a*": false} {
		v := setting.Values{}
		setting.Put(v, "url", "nats://h:1")
		setting.Put(v, "stream", "S")
		setting.Put(v, "subjects", []string{subject})
		if err := (jetstream.Kind{}).Check(v); (err == nil) != fine {
			t.Errorf("subject %q: %v", subject, err)
		}
	}
}

func TestSecretsInTheURLBecomeFields(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][4]string{
		"nats://u:secret@h:1,nats://u:secret@i:1": {"nats://h:1,nats://i:1", "u", "secret", ""},
		"tls://tok@h": {"tls://h", "", "", "tok"},
	} {
		v := setting.Values{}
		setting.Put(v, "url", raw)
		jetstream.Kind{}.Tidy(v)
		if got := [4]string{v.Text("url"), v.Text("user"), v.Text("password"), v.Text("token")}; got != want {
			t.Errorf("%s is tidied to %q", raw, got)
		}
	}
}
