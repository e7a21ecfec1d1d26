package foreign

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// quicServer is a development server with TLS and QUIC.
type quicServer struct {
	*blackbox.Server
	quic string // host:port
	cert string // file of the certificate, which signs itself
	hash string // SHA-256 of the certificate
	api  *blackbox.API
}

// startQUIC starts a server. Its certificate is one that browsers accept by its hash: ECDSA P-256, valid for hours.
func startQUIC(t *testing.T, options ...blackbox.Option) *quicServer {
	t.Helper()
	cert, key, pool := certstest.Issue(t, t.TempDir(), "quic")
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	hash := sha256.Sum256(block.Bytes)
	s := &quicServer{cert: cert, hash: hex.EncodeToString(hash[:])}
	s.Server = blackbox.New(t, append(options, blackbox.Dev(), blackbox.Env("SSL_CERT_FILE="+cert),
		blackbox.Args("--quic-addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key))...)
	if err := s.Spawn(); err != nil {
		t.Fatal(err)
	}
	s.api = &blackbox.API{Key: "dev", HTTP: secure(pool)}
	blackbox.Eventually(t, "the server is ready", func() error {
		at, err := s.Addresses()
		if err != nil {
			return err
		}
		s.HTTP, s.quic, s.api.Base = at.HTTP, at.QUIC, "https://"+at.HTTP
		return s.api.Try(t.Context(), "GET", "/readyz", nil, nil)
	})
	if s.quic == "" {
		t.Fatal("addresses.json has no address of QUIC")
	}
	return s
}

// secure is an HTTP client that trusts the pool.
func secure(pool *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, IdleConnTimeout: time.Minute}}
}

// quicLine is a line of quic_client.py: a frame, or what became of the session.
type quicLine struct {
	name string
	quicFields
}

// quicFields has what the tests look at.
type quicFields struct {
	ID     string
	Code   any // a word in an error, a number in an end
	Reason string
	Status int
	Body   string
	Topic  string
	By     string
	Data   any
}

// aioquic runs a scenario of quic_client.py, and returns what it printed.
func (s *quicServer) aioquic(t *testing.T, each func(quicLine), scenario string, args ...string) (got []quicLine) {
	t.Helper()
	line := func(text string) {
		var f map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Errorf("%s printed %q", scenario, text)
		}
		by := f["by"]
		delete(f, "by")
		for name, content := range f {
			h := quicLine{name: name}
			_ = json.Unmarshal(content, &h.quicFields) // a status is no object
			_ = json.Unmarshal(content, &h.Status)
			_ = json.Unmarshal(by, &h.By)
			got = append(got, h)
			if each != nil {
				each(h)
			}
		}
	}
	err := run(timeout(t), t, line, python(t), append([]string{"clients/quic_client.py", s.quic, s.cert, scenario}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v\nafter %v", scenario, err, got)
	}
	return got
}

// names are those of lines, without what aioquic tells of its streams; pongs in a row count once.
func names(all []quicLine) string {
	var text []string
	for _, h := range all {
		again := h.name == "pong" && len(text) > 0 && text[len(text)-1] == "pong"
		if h.name != "reset" && h.name != "stop" && h.name != "fin" && !again {
			text = append(text, h.name)
		}
	}
	return strings.Join(text, " ")
}

// ended is how the last session ended.
func ended(all []quicLine) string {
	for _, h := range all {
		if h.name == "closed" || h.name == "lost" {
			return fmt.Sprint(h.name, " ", h.Code, " ", h.Reason)
		}
	}
	return "not ended"
}

func TestAioquicReadsTheAPI(t *testing.T) {
	blackbox.Long(t)
	s := startQUIC(t)
	if err := s.api.Publish(t.Context(), map[string]any{"to": "driver-42", "id": "ride-1", "title": "Blåbær ☕"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/v1/notifications/ride-1?to=driver-42": {200, `"status":"stored"`},
		"/v1/notifications/none?to=driver-42":   {404, `"/problems/not-found"`},
		"/sdk/live.js":                          {200, "webtransport.js"},
	} {
		got := s.aioquic(t, nil, "get", path, "dev")
		if len(got) != 1 || got[0].Status != want.status || !strings.Contains(got[0].Body, want.body) {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	if got := s.aioquic(t, nil, "get", "/v1/notifications/ride-1?to=driver-42"); got[0].Status != 401 {
		t.Errorf("without a key: %+v", got)
	}
}

func TestAioquicListens(t *testing.T) {
	blackbox.Long(t)
	s := startQUIC(t)
	// The second goes on from another port before each acknowledgement. quic-go loses one of the client's connection IDs with each move and
	// gets three (quic-go/quic-go#5819); a client without IDs may move as often as it likes.
	for scenario, count := range map[string]int{"listen": count, "move": 3} {
		ctx, recipient := timeout(t), "py-"+scenario
		id := func(i int) string { return fmt.Sprintf("%s-%d", recipient, i) }
		publish := func(from, to int) {
			for i := from; i < to; i++ {
				if err := s.api.Publish(ctx, map[string]any{"to": recipient, "id": id(i), "title": "Hi"}); err != nil {
					t.Error(err)
				}
			}
		}
		publish(0, count/2)
		var ids []string
		all := s.aioquic(t, func(h quicLine) {
			switch h.name {
			case "welcome":
				publish(count/2, count)
			case "notification":
				ids = append(ids, h.ID)
			}
		}, scenario, recipient, fmt.Sprint(count))
		for i := range count {
			if i >= len(ids) || ids[i] != id(i) {
				t.Fatalf("%s: got %v, want %s-0 to %d in order", scenario, ids, recipient, count-1)
			}
			blackbox.Eventually(t, "acknowledged", func() error { return s.api.WantState(ctx, id(i), recipient, "acked") })
		}
		if end := ended(all); scenario == "listen" && end != "closed 1000 " {
			t.Errorf("a stream that its client has ended: %s", end)
		}
	}
}

func TestAioquicGetsTopicsByDatagram(t *testing.T) {
	blackbox.Long(t)
	s := startQUIC(t)
	ctx := timeout(t)
	sizes := []int{10, 900, 1 << 10, 60 << 10} // a datagram holds what a packet does; the rest comes on the stream
	all := s.aioquic(t, func(h quicLine) {
		if h.name == "pong" {
			for _, size := range sizes {
				s.api.Call(t, "POST", "/v1/topics/rides.oslo", map[string]string{"text": strings.Repeat("x", size)}, nil)
			}
			_ = s.api.Publish(ctx, map[string]any{"to": "py-topics", "id": "n", "title": "Hi"})
		}
	}, "topics", "py-topics", fmt.Sprint(len(sizes)))
	var datagrams, stream []string
	for _, h := range all {
		what := h.name
		if data, ok := h.Data.(map[string]any); ok {
			what = fmt.Sprint(h.name, " ", len(data["text"].(string)))
		}
		if h.By == "datagram" {
			datagrams = append(datagrams, what)
		} else {
			stream = append(stream, what)
		}
	}
	if got := strings.Join(datagrams, ", "); got != "message 10, message 900, message 1024" {
		t.Errorf("datagrams brought %s", got)
	}
	if got := strings.Join(stream, ", "); !strings.Contains(got, "message 61440") {
		t.Errorf("the stream brought %s", got)
	}
}

// TestAioquicMisbehaves sends what no client should, and checks that each is answered as the reference says.
func TestAioquicMisbehaves(t *testing.T) {
	blackbox.Long(t)
	thorough.IfChanged(t, "internal/gateway/quicgate", "TestAioquicListens")
	s := startQUIC(t)
	for scenario, want := range map[string]struct{ names, end string }{
		"junk":      {"welcome error error error error error pong closed", ""},
		"empty":     {"welcome pong", "not ended"},
		"oversized": {"welcome goodbye closed", "closed 1009 message_too_large"},
		"endless":   {"welcome goodbye closed", "closed 1009 message_too_large"},
		"half":      {"welcome closed", "closed 1002 cut_frame"},
		"second":    {"welcome closed", "closed 4101 second_stream"},
		"oneway":    {"welcome pong closed", "closed 4101 second_stream"},
		"datagrams": {"welcome closed", "closed 4102 datagram_refused"},
		"reset":     {"welcome closed", ""},
		"leaves":    {"welcome closed", ""},
	} {
		t.Run(scenario, func(t *testing.T) {
			all := s.aioquic(t, nil, scenario, "py-"+scenario)
			if got := names(all); got != want.names {
				t.Errorf("got %q, want %q: %+v", got, want.names, all)
			}
			if end := ended(all); want.end != "" && end != want.end {
				t.Errorf("the session is %s, want %s", end, want.end)
			}
			s.gone(t, "py-"+scenario)
		})
	}
	if all := s.aioquic(t, nil, "silent"); ended(all) != "closed 4103 stream_missing" {
		t.Errorf("without a stream: %+v", all)
	}
	for hello, want := range map[string]string{
		`{"hello":{"app":"nobodys","recipient":"r"}}`: "closed 1008 unauthenticated",
		`{"hello":{"app":"demo","token":"a.b.c"}}`:    "closed 1008 unauthenticated",
		`{"ack":{"ids":["a"]}}`:                       "closed 1008 hello_timeout",
	} {
		if all := s.aioquic(t, nil, "speaks", hello); ended(all) != want {
			t.Errorf("%s: %s, want %s", hello, ended(all), want)
		}
	}
	for path, want := range map[string]int{
		"/v1/transport":                      200,
		"/v1/transport?protocol=soap":        400,
		"/v1/transport?datagrams=yes":        400,
		"/v1/transport?recipient=a%20b":      400,
		"/v1/connect":                        405, // CONNECT is for WebTransport alone
		"/v1/transport https://evil.example": 403,
	} {
		path, origin, _ := strings.Cut(path, " ")
		if got := s.aioquic(t, nil, "refused", path, origin); names(got) != "status" || got[len(got)-1].Status != want {
			t.Errorf("%s from %q: %+v, want %d", path, origin, got, want)
		}
	}
	if err := s.api.Publish(t.Context(), map[string]any{"to": "after", "title": "Hi"}); err != nil {
		t.Error("the server no longer works:", err)
	}
}

// gone waits until a recipient has no session.
func (s *quicServer) gone(t *testing.T, recipient string) {
	t.Helper()
	blackbox.Eventually(t, "the session has ended", func() error {
		gateways, err := s.gateways(t.Context(), recipient)
		if err == nil && len(gateways) > 0 {
			err = fmt.Errorf("%s has sessions over %v", recipient, gateways)
		}
		return err
	})
}

// gateways are those over which a recipient is connected.
func (s *quicServer) gateways(ctx context.Context, recipient string) (all []string, err error) {
	var r struct{ Sessions []struct{ Gateway string } }
	answer, err := s.api.Do(ctx, "GET", "/v1/recipients/"+recipient, nil)
	if err != nil || answer.Status == http.StatusNotFound {
		return nil, err
	}
	err = answer.JSON(&r)
	for _, one := range r.Sessions {
		all = append(all, one.Gateway)
	}
	return all, err
}
