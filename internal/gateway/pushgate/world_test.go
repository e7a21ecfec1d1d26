package pushgate_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/pushgate"
	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a push service.
type world struct {
	*gatetest.Server
	channels *channeldb.Store
	gate     *pushgate.Gateway
}

// tables are those of the push service.
func tables() []store.Tables {
	lite, pg := channeldb.Migrations()
	return []store.Tables{{Module: pushgate.Name, SQLite: lite, Postgres: pg}}
}

// mount adds a push service to a server.
func mount(t testing.TB, s *gatetest.Server, channels *channeldb.Store, set ...func(*pushgate.Config)) *pushgate.Gateway {
	cfg := pushgate.Config{Hub: s.Hub, Reactor: s.Reactor, Publisher: s.Publish, Mailbox: s.Mailbox, Channels: channels, Now: time.Now, Beat: time.Minute, Keep: time.Hour, Log: s.Log}
	for _, f := range set {
		f(&cfg)
	}
	g := pushgate.New(cfg)
	t.Cleanup(func() { _ = g.Close() })
	s.Mux.Handle("/push", g)
	s.Mux.HandleFunc("/wpush/{version}/{token}", g.Endpoint)
	s.Mux.HandleFunc("/m/{id}", g.Message)
	return g
}

func start(t *testing.T, set ...func(*pushgate.Config)) *world {
	t.Helper()
	w := &world{}
	w.Server = gatetest.Start(t, func(s *gatetest.Server) {
		stores, err := store.Open(context.WithoutCancel(t.Context()), store.Config{Data: t.TempDir(), MinFree: 1 << 20, Tables: tables()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores.Close() })
		w.channels = &channeldb.Store{DB: stores.Database(pushgate.Name), Most: 4, Now: time.Now}
		w.gate = mount(t, s, w.channels, set...)
	})
	return w
}

// device is a browser or phone.
type device struct {
	t    testing.TB
	w    *world
	at   string // the node's URL
	ws   *websocket.Conn
	uaid string
}

// answer is a message of the server.
type answer struct {
	MessageType  string
	UAID         string
	Status       int
	UseWebPush   bool `json:"use_webpush"`
	Broadcasts   map[string]string
	ChannelID    string
	PushEndpoint string
	Version      string
	Data         *string
	Headers      map[string]string
}

func (w *world) device(t testing.TB) *device {
	t.Helper()
	d := &device{t: t, w: w, at: w.URL}
	d.connect()
	return d
}

// open opens a connection without hello.
func (d *device) open() {
	d.t.Helper()
	ws, _, err := websocket.Dial(d.t.Context(), d.at+"/push", &websocket.DialOptions{Subprotocols: []string{pushgate.Subprotocol}, HTTPClient: d.w.HTTP.Client()})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	d.ws = ws
}

// connect says hello with the uaid that the device has.
func (d *device) connect() answer {
	d.t.Helper()
	d.open()
	hello := map[string]any{"messageType": "hello", "use_webpush": true, "broadcasts": map[string]string{}}
	if d.uaid != "" {
		hello["uaid"] = d.uaid
	}
	a := d.ask(hello)
	if a.MessageType != "hello" || a.Status != 200 || len(a.UAID) != 32 || !a.UseWebPush || a.Broadcasts == nil {
		d.t.Fatalf("hello is answered with %+v", a)
	}
	d.uaid = a.UAID
	return a
}

func (d *device) send(m any) {
	d.t.Helper()
	b, _ := json.Marshal(m)
	if err := d.ws.Write(d.t.Context(), websocket.MessageText, b); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) ask(m any) answer {
	d.t.Helper()
	d.send(m)
	return d.next()
}

// next is the server's next message.
func (d *device) next() (a answer) {
	d.t.Helper()
	b := d.text()
	if err := json.Unmarshal([]byte(b), &a); err != nil {
		d.t.Fatalf("%s: %v", b, err)
	}
	return a
}

func (d *device) text() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeoutCause(d.t.Context(), gatetest.Patience, fmt.Errorf("nothing came in %s", gatetest.Patience))
	defer cancel()
	kind, b, err := d.ws.Read(ctx)
	if err != nil || kind != websocket.MessageText {
		d.t.Fatalf("%v: %v", kind, err)
	}
	return string(b)
}

// closed waits for the server to close the connection.
func (d *device) closed() websocket.StatusCode {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), gatetest.Patience)
	defer cancel()
	for {
		if _, _, err := d.ws.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// disconnect closes the connection and waits for the server to do so too.
func (d *device) disconnect() {
	d.t.Helper()
	if err := d.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		d.t.Fatal(err)
	}
}

// newChannel is the name of a channel: a UUID.
func newChannel() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// register makes a channel and returns its endpoint.
func (d *device) register(key string) (channel, endpoint string) {
	d.t.Helper()
	channel = newChannel()
	m := map[string]any{"messageType": "register", "channelID": channel}
	if key != "" {
		m["key"] = key
	}
	a := d.ask(m)
	if a.MessageType != "register" || a.Status != 200 || a.ChannelID != channel || a.PushEndpoint == "" {
		d.t.Fatalf("register is answered with %+v", a)
	}
	return channel, a.PushEndpoint
}

func (d *device) ack(list ...answer) {
	d.t.Helper()
	var updates []map[string]any
	for _, a := range list {
		updates = append(updates, map[string]any{"channelID": a.ChannelID, "version": a.Version, "code": 100})
	}
	d.send(map[string]any{"messageType": "ack", "updates": updates})
	if text := d.ping(); text != "{}" {
		d.t.Fatalf("after an ack came %s", text)
	}
}

// ping returns what comes after a ping.
func (d *device) ping() string {
	d.t.Helper()
	d.send(struct{}{})
	return d.text()
}

// want checks that the next message is a notification with a body, and returns it.
func (d *device) want(body string) answer {
	d.t.Helper()
	a := d.next()
	data := ""
	if a.Data != nil {
		data = *a.Data
	}
	got, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil || a.MessageType != "notification" || string(got) != body || a.Version == "" {
		d.t.Fatalf("%+v with %q, want a notification with %q", a, got, body)
	}
	return a
}

// post is a request of a sender.
type post struct {
	body    string
	method  string // empty: POST
	header  map[string]string
	chunked bool
}

// reply is its answer.
type reply struct {
	status int
	header http.Header
	body   string
	errno  int
}

func (w *world) send(t testing.TB, url string, p post) reply {
	t.Helper()
	var body io.Reader = bytes.NewReader([]byte(p.body))
	if p.chunked {
		body = io.MultiReader(body) // of unknown length
	}
	if p.method == "" {
		p.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), p.method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range p.header {
		req.Header.Set(name, value)
	}
	resp, err := w.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	var doc struct{ Errno int }
	if r.status >= 400 && json.Unmarshal(text, &doc) == nil {
		r.errno = doc.Errno
	}
	return r
}

// sealed are the headers of a message of RFC 8291, with more or other ones.
func sealed(ttl string, more ...string) map[string]string {
	h := map[string]string{"TTL": ttl, "Content-Encoding": "aes128gcm"}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// message sends a message and checks that it is accepted.
func (w *world) message(t testing.TB, endpoint, body string, header map[string]string) reply {
	t.Helper()
	r := w.send(t, endpoint, post{body: body, header: header})
	if r.status != http.StatusCreated || r.header.Get("Location") == "" || r.header.Get("TTL") == "" {
		t.Fatalf("%d %s, %v; want 201 with Location and TTL", r.status, r.body, r.header)
	}
	return r
}

// key is a sender's key pair.
type key struct {
	private *ecdsa.PrivateKey
	public  string
}

func newKey(t testing.TB) key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return key{private, base64.RawURLEncoding.EncodeToString(point)}
}

// token signs claims.
func (k key) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.private}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claims are those of a usual token for a server.
func claims(aud string) map[string]any {
	return map[string]any{"aud": aud, "exp": time.Now().Add(12 * time.Hour).Unix(), "sub": "mailto:ops@example.org"}
}

func (k key) header(t testing.TB, aud string) string {
	return "vapid t=" + k.token(t, claims(aud)) + ", k=" + k.public
}
