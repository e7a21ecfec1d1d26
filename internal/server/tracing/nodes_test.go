package tracing_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/tracing"
)

// between connects two tracers as nodes, and returns their messages.
func between(t *testing.T, a, b *tracing.Tracer) *[]string {
	t.Helper()
	var said []string
	for _, of := range [][2]*tracing.Tracer{{a, b}, {b, a}} {
		of[0].TellOthers(func(body []byte) {
			said = append(said, string(body))
			if err := of[1].Heard(body); err != nil {
				t.Error(err)
			}
		})
	}
	return &said
}

func TestATraceGoesOnWithWhatOtherNodesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, there := &collector{}, &collector{}
		here, kept := &shelf{kept: map[tracing.Copy]tracing.Kept{}}, &shelf{kept: map[tracing.Copy]tracing.Kept{}}
		one, stop := start(t, to, here)
		other, stopOther := start(t, there, kept)
		between(t, one, other)
		publish(one, "n", asked, "ann")
		deliver(other, "n", "ann")
		time.Sleep(time.Second)
		if now, _ := kept.counts(); now != 1 {
			t.Errorf("the other node keeps %d for a restart", now)
		}
		settle(other, "n", "ann", notification.Acked)
		time.Sleep(30 * time.Second)
		if done := one.Posting("demo", "ann", "n", "crm", "acked"); done != nil { // only the first node posts to the hook
			done(nil)
		}
		time.Sleep(2 * time.Minute)
		for _, tr := range []*tracing.Tracer{one, other} {
			if tr.Pushing("demo", "ann", "n", "fcm", 1) != nil {
				t.Error("it is still followed")
			}
		}
		stop()
		stopOther()
		if got := there.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, []string{"deliver demo", "ack demo"}) {
			t.Errorf("spans of the other node %q", got)
		}
		if got := to.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, []string{"commit", "publish demo", "hook crm"}) {
			t.Errorf("spans %q", got)
		}
		for _, s := range there.spans {
			if s.Parent().SpanID() != to.spans[1].SpanContext().SpanID() {
				t.Errorf("%s hangs from %s, not from the publish", s.Name(), s.Parent().SpanID())
			}
		}
		for name, on := range map[string]*shelf{"one": here, "other": kept} {
			if now, _ := on.counts(); now != 0 {
				t.Errorf("%s keeps %d", name, now)
			}
		}
	})
}

// TestANodeThatHearsOfATraceLateAddsWhatItHasDone: the message that a copy is traced is handled after the copy itself.
func TestANodeThatHearsOfATraceLateAddsWhatItHasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, there := &collector{}, &collector{}
		one, stop := start(t, to, nil)
		other, stopOther := start(t, there, nil)
		var late [][]byte
		one.TellOthers(func(body []byte) { late = append(late, body) })
		other.TellOthers(func(body []byte) {
			if err := one.Heard(body); err != nil {
				t.Error(err)
			}
		})
		publish(one, "n", asked, "ann")
		deliver(other, "n", "ann")
		deliver(other, "m", "ann")
		settle(other, "n", "ann", notification.Acked)
		for _, body := range append(late, late...) {
			if err := other.Heard(body); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Minute)
		if one.Pushing("demo", "ann", "n", "fcm", 1) != nil {
			t.Error("the first node has not heard of the end")
		}
		stop()
		stopOther()
		if got := there.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, []string{"deliver demo", "ack demo"}) {
			t.Errorf("spans of the other node %q", got)
		}
	})
}

func TestOtherNodesAreToldOfWhatIsSampledAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, stop := start(t, &collector{}, nil)
		other, stopOther := start(t, &collector{}, nil)
		said := between(t, one, other)
		publish(one, "n", quiet, "ann")
		settle(one, "n", "ann", notification.Acked)
		if len(*said) != 0 {
			t.Errorf("they are told %q", *said)
		}
		var many []string
		for i := range 1000 {
			many = append(many, fmt.Sprintf("%0128d", i))
		}
		publish(one, "m", asked, many...)
		for _, body := range *said {
			if len(body) > 256<<10 {
				t.Errorf("a message has %d bytes", len(body))
			}
		}
		for _, name := range many {
			if other.Pushing("demo", name, "m", "fcm", 1) == nil {
				t.Fatalf("the other node does not follow %s", name)
			}
		}
		stop()
		stopOther()
	})
}

func TestMalformedMessagesOfNodesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, stop := start(t, &collector{}, nil)
		until := time.Now().Add(time.Hour).Format(time.RFC3339)
		for _, body := range []string{
			``, `{`, `{"followed":3}`, `{"followed":[{}],"ended":[{}]}`,
			`{"followed":[{"app":"demo","recipient":"ann","id":"n","parent":"` + asked + `"}]}`, // it has expired
			`{"followed":[{"app":"demo","recipient":"ann","id":"n","parent":"` + quiet + `","until":"` + until + `"}]}`,
			`{"followed":[{"app":"demo","recipient":"ann","id":"n","parent":"00-0","until":"` + until + `"}]}`,
			`{"ended":[{"app":"demo","recipient":"ann","id":"n"}]}`,
		} {
			_ = tr.Heard([]byte(body))
			if tr.Pushing("demo", "ann", "n", "fcm", 1) != nil {
				t.Errorf("%s is followed", body)
			}
		}
		if err := tr.Heard([]byte(`{"followed":[{"app":"demo","recipient":"ann","id":"n","parent":"` + asked + `","until":"` + until + `"}]}`)); err != nil || tr.Pushing("demo", "ann", "n", "fcm", 1) == nil {
			t.Errorf("what is sampled is not followed: %v", err)
		}
		stop()
	})
}

func FuzzHeard(f *testing.F) {
	f.Add([]byte(`{"followed":[{"app":"demo","recipient":"ann","id":"n","parent":"` + asked + `","state":"a=b","until":"2999-01-01T00:00:00Z"}],"ended":[{"app":"demo","recipient":"ann","id":"n"}]}`))
	f.Add([]byte(`{"ended":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tr, err := tracing.New(t.Context(), tracing.Config{Exporter: &collector{}})
		if err != nil {
			t.Fatal(err)
		}
		_ = tr.Heard(body)
		tr.Committed(&mailbox.Batch{Settled: []mailbox.Settled{{App: "demo", Recipient: "ann", ID: "n", As: notification.Acked}}})
	})
}
