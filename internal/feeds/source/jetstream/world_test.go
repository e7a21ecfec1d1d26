package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ours is the consumer that the source makes.
const ours = "godwit_shop_jetstream"

// world is a NATS with a stream ORDERS, of subjects orders.>, and a service that reads it.
type world struct {
	*sourcetest.World
	nats   *server.Server
	js     js.JetStream
	stream js.Stream
}

// options are those of a NATS with JetStream.
func options(t *testing.T) *server.Options {
	return &server.Options{Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSystemAccount: true}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return worldOn(t, natstest.Start(t, options(t)))
}

func worldOn(t *testing.T, s *server.Server, login ...nats.Option) *world {
	t.Helper()
	w := &world{World: sourcetest.NewWorld(t, jetstream.Name, jetstream.Kind{}), nats: s}
	w.connect(login...)
	w.make(js.StreamConfig{})
	setting.Put(w.Values, jetstream.FieldURL, "nats://"+s.Addr().String())
	setting.Put(w.Values, jetstream.FieldStream, "ORDERS")
	return w
}

func (w *world) connect(login ...nats.Option) {
	w.Helper()
	nc, err := nats.Connect(w.nats.ClientURL(), append(login, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	if w.js, err = js.New(nc, js.WithDefaultTimeout(time.Minute)); err != nil {
		w.Fatal(err)
	}
}

// make makes the stream, anew if there is one.
func (w *world) make(cfg js.StreamConfig) {
	w.Helper()
	_ = w.js.DeleteStream(w.Context(), "ORDERS")
	cfg.Name, cfg.Subjects = "ORDERS", []string{"orders.>"}
	var err error
	if w.stream, err = w.js.CreateStream(w.Context(), cfg); err != nil {
		w.Fatal(err)
	}
}

// publish publishes messages on orders.new.
func (w *world) publish(bodies ...string) {
	w.Helper()
	for _, body := range bodies {
		w.send(&nats.Msg{Subject: "orders.new", Data: []byte(body)})
	}
}

func (w *world) send(m *nats.Msg) {
	w.Helper()
	if _, err := w.js.PublishMsg(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// consumer makes a consumer as a person would.
func (w *world) consumer(name string, change func(*js.ConsumerConfig)) js.Consumer {
	w.Helper()
	cfg := js.ConsumerConfig{Durable: name, AckPolicy: js.AckExplicitPolicy}
	if change != nil {
		change(&cfg)
	}
	c, err := w.stream.CreateConsumer(w.Context(), cfg)
	if err != nil {
		w.Fatal(err)
	}
	setting.Put(w.Values, jetstream.FieldConsumer, name)
	return c
}

// acknowledged waits until a consumer has nothing to deliver or to acknowledge.
func (w *world) acknowledged(name string) {
	w.Helper()
	var said string
	if !eventually.Holds(func() bool {
		c, err := w.stream.Consumer(context.Background(), name)
		if err != nil {
			said = err.Error()
			return false
		}
		i := c.CachedInfo()
		said = fmt.Sprintf("%d pending, %d unacknowledged", i.NumPending, i.NumAckPending)
		return i.NumPending == 0 && i.NumAckPending == 0
	}) {
		w.Fatalf("%s: %s; %+v", name, said, w.Info())
	}
}

// publishes returns the bodies of publishes to a recipient.
func publishes(to string, titles ...string) (bodies []string) {
	for _, title := range titles {
		bodies = append(bodies, fmt.Sprintf(`{"to":%q,"title":%q}`, to, title))
	}
	return bodies
}
