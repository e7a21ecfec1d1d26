package jetstream_test

import (
	"strings"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
)

func TestTheExaminationSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.make(js.StreamConfig{MaxAge: time.Hour})
	w.publish(publishes("ann", "1")...)
	says := func(want ...string) {
		t.Helper()
		var got strings.Builder
		for _, c := range source.Examine(t.Context(), jetstream.Kind{}, &source.Source{App: "shop", Name: jetstream.Name, Values: w.Values, Private: true}, urlguard.Targets{}) {
			got.WriteString(map[bool]string{true: "ok ", false: "bad "}[c.OK] + c.Detail + " | " + c.Hint + "\n")
		}
		for _, text := range want {
			if !strings.Contains(got.String(), text) {
				t.Errorf("%q is not in\n%s", text, got.String())
			}
		}
	}
	says("ok the stream ORDERS has 1 messages | it deletes messages, read or not, by its limits (max_age 1h0m0s", "bad the consumer "+ours+" does not exist")
	w.consumer(ours, nil)
	says("bad the consumer " + ours + " has 1 messages that nobody asks for")
	w.Start(true)
	w.Gets("ann 1")
	w.acknowledged(ours)
	says("ok the consumer " + ours + " has 0 messages to deliver, and 0 that are not acknowledged")
	setting.Put(w.Values, jetstream.FieldSubjects, []string{"bills.>"})
	says("bad the stream ORDERS has no subject that matches bills.>")
	w.consumer("pushed", func(c *js.ConsumerConfig) { c.AckPolicy = js.AckNonePolicy })
	says("bad the consumer pushed does not acknowledge each message")
	w.consumer("heads", func(c *js.ConsumerConfig) { c.HeadersOnly = true })
	says("bad the consumer heads delivers headers without messages")
	w.consumer("grouped", func(c *js.ConsumerConfig) {
		c.PriorityPolicy, c.PriorityGroups = js.PriorityPolicyOverflow, []string{"a"}
	})
	says("bad the consumer grouped has priority groups")
	w.consumer("asleep", nil)
	if _, err := w.stream.PauseConsumer(t.Context(), "asleep", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	says("bad the consumer asleep is paused in NATS for", "| nats consumer resume")
	w.make(js.StreamConfig{Storage: js.MemoryStorage})
	says("| it is kept in memory: a restart of NATS loses what was not read")
	setting.Put(w.Values, jetstream.FieldURL, "nats://127.0.0.1:1")
	says("bad cannot connect", "look at the URL, the credentials and the network")
}
