package jetstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestADeletedConsumerIsMadeByAResyncAloneAndReadsOn(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.acknowledged(ours)
	if err := w.stream.DeleteConsumer(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	w.publish(publishes("ann", "2")...)
	w.Becomes(source.Failing, "the consumer "+ours+" is gone; godwit source resync jetstream makes another, which reads on after message 1")
	w.Set(source.Change{Resync: true})
	w.Gets("ann 2")
	w.Becomes(source.Running, "")
	if n := w.Info().Counts.Duplicate; n != 0 {
		t.Errorf("%d were read again", n)
	}
}

func TestADeletedStreamIsNamedAndAnotherIsReadByAResyncAlone(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.acknowledged(ours)
	if err := w.js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	w.Becomes(source.Failing, "the stream ORDERS does not exist: make it")
	if !strings.Contains(w.Logged.String(), "the consumer "+ours+" was deleted, or its stream") {
		t.Errorf("the log has %s", w.Logged)
	}
	w.make(js.StreamConfig{})
	w.publish(publishes("ann", "1 of another")...) // with the sequence of the former one
	w.Becomes(source.Failing, "the stream ORDERS is another one than before")
	w.Set(source.Change{Resync: true})
	w.Gets("ann 1 of another")
}

func TestAStreamThatComesLaterIsRead(t *testing.T) {
	w := newWorld(t)
	if err := w.js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	w.Start(true)
	w.Becomes(source.Failing, "the stream ORDERS does not exist")
	eventually.True(t, "failed tries leave no connection", func() bool { return w.nats.NumClients() == 1 }) // the test's own
	w.make(js.StreamConfig{})
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.Becomes(source.Running, "")
}

func TestStreamsThatDeleteWhatIsAcknowledgedAreRead(t *testing.T) {
	for name, retention := range map[string]js.RetentionPolicy{"interest": js.InterestPolicy, "workqueue": js.WorkQueuePolicy} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.make(js.StreamConfig{Retention: retention})
			w.Start(true)
			w.Becomes(source.Running, "")
			w.Stop()
			w.publish(publishes("ann", "1", "2")...)
			w.Run()
			w.Gets("ann 1", "ann 2")
			w.acknowledged(ours)
			w.Set(source.Change{Resync: true}) // there is nothing to read again
			w.publish(publishes("ann", "3")...)
			w.Gets("ann 3")
			eventually.True(t, "the stream is empty, and has one consumer", func() bool {
				i, err := w.stream.Info(t.Context())
				return err == nil && i.State.Msgs == 0 && i.State.Consumers == 1
			})
		})
	}
}

func TestMessagesThatAreStoredSlowlyAreNotDeliveredAgain(t *testing.T) {
	w := newWorld(t)
	c := w.consumer("mine", func(cfg *js.ConsumerConfig) { cfg.AckWait = time.Second })
	clock, err := w.stream.CreateConsumer(t.Context(), js.ConsumerConfig{Durable: "clock", AckPolicy: js.AckExplicitPolicy, AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.Down(errors.New("disk full"))
	w.Start(true)
	w.publish(publishes("ann", "1")...)
	w.Becomes(source.Failing, "disk full")
	for range 4 { // NATS gives the patience of one second up three times
		m, err := clock.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := m.Metadata(); err != nil || n.Sequence.Stream != 1 {
			t.Fatal(n, err)
		}
	}
	if i, err := c.Info(t.Context()); err != nil || i.NumRedelivered != 0 || i.NumAckPending != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	w.Down(nil)
	w.Gets("ann 1")
	w.acknowledged("mine")
}

func TestUsersMayHaveAnInboxOfTheirOwn(t *testing.T) {
	t.Parallel()
	o := options(t)
	own := server.Permissions{Publish: rights.Publish, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_godwit.>"}}}
	o.Users = []*server.User{{Username: "root", Password: "root"}, {Username: "godwit", Password: secret, Permissions: &own}}
	w := worldOn(t, natstest.Start(t, o), nats.UserInfo("root", "root"))
	setting.Put(w.Values, jetstream.FieldUser, "godwit")
	setting.Put(w.Values, jetstream.FieldPassword, secret)
	w.publish(publishes("ann", "1")...)
	w.Start(true)
	w.Becomes(source.Failing, "the rights of the NATS user do not suffice")
	setting.Put(w.Values, jetstream.FieldInbox, "_INBOX_godwit")
	w.Set(source.Change{Values: w.Values})
	w.Gets("ann 1")
	w.acknowledged(ours)
}

func TestMessagesThatTheStreamDeletedBeforeTheyWereReadAreNamed(t *testing.T) {
	w := newWorld(t)
	w.make(js.StreamConfig{MaxMsgs: 1})
	w.Start(true)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.acknowledged(ours)
	w.Stop()
	w.publish(publishes("ann", "2", "3")...)
	w.Run()
	w.Gets("ann 3")
	w.Becomes(source.Running, "the stream has deleted messages 2 to 2")
}

func TestAMessageThatWaitsAndIsDeletedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.Fill("full", true)
	w.Start(true)
	w.publish(publishes("full", "1")...)
	w.Becomes(source.Running, "1 message waits")
	if err := w.stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.Fill("full", false)
	w.publish(publishes("full", "2")...)
	w.Gets("full 2")
	w.Becomes(source.Running, "")
}

func TestAResyncReadsTheWholeStreamAgain(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	w.publish(publishes("ann", "1", "2")...)
	w.Gets("ann 1", "ann 2")
	w.acknowledged(ours)
	if err := w.stream.DeleteConsumer(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	w.Becomes(source.Failing, "reads on after message 2") // how far it has come is noted
	w.Set(source.Change{Resync: true})
	w.Becomes(source.Running, "")
	w.Set(source.Change{Resync: true})
	w.publish(publishes("ann", "3")...)
	w.Gets("ann 3")
	if n := w.Info().Counts.Duplicate; n != 2 {
		t.Errorf("%d duplicates", n)
	}
	w.acknowledged(ours)
	w.Stop() // the resync is done: it does not happen again
	w.Run()
	w.publish(publishes("ann", "4")...)
	w.Gets("ann 4")
	if n := w.Info().Counts.Duplicate; n != 0 {
		t.Errorf("%d duplicates after the resync was done", n)
	}
}

func TestASourceThatIsDeletedTakesItsConsumerAlong(t *testing.T) {
	w := newWorld(t)
	w.Start(true)
	w.Becomes(source.Running, "")
	if left, err := w.Service.Delete(t.Context(), "shop", w.Name, setting.Match{}); left != "" || err != nil {
		t.Fatal(left, err)
	}
	if _, err := w.stream.Consumer(t.Context(), ours); err == nil {
		t.Error("the consumer is there still")
	}
}

func TestAPersonsConsumerStaysAndIsRefusedIfItLosesMessages(t *testing.T) {
	w := newWorld(t)
	w.consumer("mine", func(c *js.ConsumerConfig) { c.MaxDeliver = 5 })
	w.Start(true)
	w.Becomes(source.Failing, "set its max_deliver to -1")
	w.consumer("other", nil)
	w.Set(source.Change{Values: w.Values})
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.acknowledged("other")
	w.Set(source.Change{Resync: true})
	w.publish(publishes("ann", "2")...)
	w.Gets("ann 2")
	if n := w.Info().Counts.Duplicate; n != 0 {
		t.Errorf("a resync has made the consumer of a person anew: %d duplicates", n)
	}
	if _, err := w.Service.Delete(t.Context(), "shop", w.Name, setting.Match{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.stream.Consumer(t.Context(), "other"); err != nil {
		t.Error(err)
	}
}

func TestAServerThatWasAwayIsReadAgain(t *testing.T) {
	t.Parallel()
	o := options(t)
	first := natstest.Start(t, o)
	w := worldOn(t, first)
	w.Start(true)
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.acknowledged(ours)
	port := first.Addr().(*net.TCPAddr).Port
	first.Shutdown()
	first.WaitForShutdown()
	w.Becomes(source.Failing, "NATS")
	again := *o
	again.Port = port
	natstest.Start(t, &again)
	w.publish(publishes("ann", "2")...)
	w.Gets("ann 2")
	w.Becomes(source.Running, "")
}

func TestANATSWithoutJetStreamIsNamed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, &server.Options{Port: -1})
	w := sourcetest.NewWorld(t, jetstream.Name, jetstream.Kind{})
	setting.Put(w.Values, jetstream.FieldURL, s.ClientURL())
	setting.Put(w.Values, jetstream.FieldStream, "ORDERS")
	w.Start(true)
	w.Becomes(source.Failing, "JetStream is off in this NATS")
}

func TestASubjectThatTheStreamDoesNotHaveIsNamed(t *testing.T) {
	w := newWorld(t)
	setting.Put(w.Values, jetstream.FieldSubjects, []string{"bills.>"})
	w.Start(true)
	w.Becomes(source.Running, "the stream ORDERS has no subject that matches bills.>")
}

// rights are those that the guide names.
var rights = server.Permissions{
	Publish: &server.SubjectPermission{Allow: []string{
		"$JS.API.STREAM.INFO.ORDERS", "$JS.API.CONSUMER.INFO.ORDERS." + ours, "$JS.API.CONSUMER.CREATE.ORDERS." + ours, "$JS.API.CONSUMER.CREATE.ORDERS." + ours + ".>",
		"$JS.API.CONSUMER.DELETE.ORDERS." + ours, "$JS.API.CONSUMER.MSG.NEXT.ORDERS." + ours, "$JS.ACK.ORDERS." + ours + ".>",
	}},
	Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
}

const secret = "sekret-of-the-nats-user"

func TestTheRightsOfTheGuideSufficeAndALackIsNamed(t *testing.T) {
	t.Parallel()
	o := options(t)
	poor := server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.ORDERS"}}, Subscribe: rights.Subscribe}
	o.Users = []*server.User{{Username: "root", Password: "root"}, {Username: "godwit", Password: secret, Permissions: &rights}, {Username: "poor", Password: secret, Permissions: &poor}}
	w := worldOn(t, natstest.Start(t, o), nats.UserInfo("root", "root"))
	setting.Put(w.Values, jetstream.FieldUser, "poor")
	setting.Put(w.Values, jetstream.FieldPassword, secret)
	w.publish(publishes("ann", "1")...)
	w.Start(true)
	w.Becomes(source.Failing, "the rights of the NATS user do not suffice")
	if !strings.Contains(w.Info().Error, "$JS.API.CONSUMER.INFO.ORDERS") {
		t.Errorf("the error is %s", w.Info().Error)
	}
	setting.Put(w.Values, jetstream.FieldUser, "godwit")
	w.Set(source.Change{Values: w.Values})
	w.Gets("ann 1")
	w.acknowledged(ours)
	w.Set(source.Change{Resync: true})
	w.Becomes(source.Running, "")
}

func TestCredentialsAreUsedAndNeverShown(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pair.PublicKey()
	seed, _ := pair.Seed()
	for field, c := range map[string]struct {
		options server.Options
		login   nats.Option
		right   string
	}{
		jetstream.FieldPassword: {server.Options{Username: "u", Password: secret}, nats.UserInfo("u", secret), secret},
		jetstream.FieldToken:    {server.Options{Authorization: secret}, nats.Token(secret), secret},
		jetstream.FieldNKey:     {server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}, nats.Nkey(public, pair.Sign), string(seed)},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			o := c.options
			o.Port, o.JetStream, o.StoreDir = -1, true, t.TempDir()
			w := worldOn(t, natstest.Start(t, &o), c.login)
			other, _ := nkeys.CreateUser()
			wrong, _ := other.Seed()
			if field == jetstream.FieldPassword {
				setting.Put(w.Values, jetstream.FieldUser, "u")
			}
			setting.Put(w.Values, field, string(wrong))
			w.Start(true)
			w.Becomes(source.Failing, "NATS does not accept the credentials of the source")
			w.hides(string(wrong))
			setting.Put(w.Values, field, c.right)
			w.Set(source.Change{Values: w.Values})
			w.publish(publishes("ann", "1")...)
			w.Gets("ann 1")
			w.hides(c.right)
		})
	}
}

// hides fails if a secret is shown or was logged.
func (w *world) hides(secret string) {
	w.Helper()
	i := w.Info()
	if text := w.Logged.String() + i.Error + i.Detail + strings.Join(i.Addresses, " "); strings.Contains(text, secret) {
		w.Errorf("a secret is in %s", text)
	}
}

func TestACredsFileAndTLSAreUsed(t *testing.T) {
	t.Parallel()
	n := natstest.Guard(t, true, func(o *server.Options) { o.JetStream, o.StoreDir = true, t.TempDir() })
	file := filepath.Join(t.TempDir(), "user.creds")
	hidden := natstest.Credentials(t, file, n.Account)
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	w := worldOn(t, n.Server, nats.UserCredentials(file), nats.RootCAs(n.CA))
	setting.Put(w.Values, jetstream.FieldCredentials, read(file))
	w.Start(true)
	w.Becomes(source.Failing, "certificate")
	setting.Put(w.Values, jetstream.FieldCA, read(n.CA))
	w.Set(source.Change{Values: w.Values})
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.hides(hidden)
}

func TestACertificateOfTheSourceIsShown(t *testing.T) {
	t.Parallel()
	cert, key, ca := certstest.NewAuthority(t).Node(t, time.Now().Add(time.Hour))
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	vouch := x509.NewCertPool()
	vouch.AppendCertsFromPEM([]byte(read(ca)))
	o := options(t)
	o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 10
	o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: vouch, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	w := worldOn(t, natstest.Start(t, o), nats.RootCAs(ca), nats.ClientCert(cert, key))
	setting.Put(w.Values, jetstream.FieldCA, read(ca))
	w.Start(true)
	w.Becomes(source.Failing, "certificate")
	setting.Put(w.Values, jetstream.FieldCertificate, read(cert))
	setting.Put(w.Values, jetstream.FieldKey, read(key))
	w.Set(source.Change{Values: w.Values})
	w.publish(publishes("ann", "1")...)
	w.Gets("ann 1")
	w.hides(read(key))
}
