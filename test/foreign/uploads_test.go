package foreign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/test/blackbox"
)

// uploadWorker is a NATS worker that fetches uploads and answers with their hash.
func uploadWorker(t *testing.T, s *blackbox.Server, references chan<- string) {
	t.Helper()
	nc, err := nats.Connect("nats://"+natsAddress(t, s), nats.Token("dev"), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("godwit.demo.r.files.>", func(m *nats.Msg) {
		got := m.Data
		if ref := m.Header.Get("Godwit-Upload-Url"); ref != "" {
			if strings.HasPrefix(ref, "/") {
				ref = s.URL(ref)
			}
			references <- ref
			status, body := fetch(t, ref)
			if got = body; status != http.StatusOK {
				got = fmt.Appendf(nil, "status %d: %s", status, body)
			}
		}
		sum := sha256.Sum256(got)
		answer := fmt.Sprintf("%d %s %s %s", len(got), hex.EncodeToString(sum[:]), m.Header.Get("Godwit-Upload-Size"), m.Header.Get("Godwit-Upload-Sha256"))
		_ = m.Respond([]byte(answer)) // the caller reports what is lost
	}); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, url string) (status int, body []byte) {
	resp, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, body
}

// upload calls the service files with a body.
func upload(ctx context.Context, t *testing.T, s *blackbox.Server, body io.Reader, header http.Header) (status int, answer string) {
	t.Helper()
	return uploadTo(ctx, t, s, "files", body, header)
}

// waiting is a client that sends no body before the server asks for it, if a request expects that.
var waiting = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}

func uploadTo(ctx context.Context, t *testing.T, s *blackbox.Server, service string, body io.Reader, header http.Header) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL("/gw/"+service+"/a"), body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer dev")
	if c, ok := body.(*counter); ok {
		req.ContentLength = int64(c.size)
	}
	resp, err := waiting.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func wantUpload(body []byte) string {
	sum := sha256.Sum256(body)
	text := hex.EncodeToString(sum[:])
	return fmt.Sprintf("%d %s %d %s", len(body), text, len(body), text)
}

// counter counts what is read of a body of a known size.
type counter struct {
	from    io.Reader
	n, size int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}

// TestUploadsReachWorkersByAReference: a service that stores uploads takes bodies of more than 1 MiB, whether the caller names their length or
// not, and a NATS worker fetches them. Other services, larger bodies and altered references are refused, and nothing is left of those.
func TestUploadsReachWorkersByAReference(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--nats-addr", "127.0.0.1:0", "--uploads-max", "4MB", "--uploads-space", "10MB"))
	references := make(chan string, 8)
	uploadWorker(t, s, references)
	ctx := timeout(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	if status, answer := upload(ctx, t, s, bytes.NewReader(large), nil); status != http.StatusRequestEntityTooLarge {
		t.Fatalf("without the setting: %d %s", status, answer)
	}
	s.API().Call(t, "PUT", "/v1/gateway/files", map[string]any{"upload": "store"}, nil)
	var kept []string
	for name, body := range map[string]func() io.Reader{
		"with a length": func() io.Reader { return bytes.NewReader(large) }, "without one": func() io.Reader { return io.MultiReader(bytes.NewReader(large)) },
	} {
		blackbox.Eventually(t, "the setting holds", func() error {
			status, answer := upload(ctx, t, s, body(), http.Header{"Godwit-Upload-Url": {"http://evil.example/"}})
			if status == http.StatusOK && answer == wantUpload(large) {
				return nil
			}
			return fmt.Errorf("%s: %d %s, want %s", name, status, answer, wantUpload(large))
		})
		kept = append(kept, <-references)
	}
	if status, answer := upload(ctx, t, s, strings.NewReader("small"), http.Header{"Godwit-Upload-Url": {"http://evil.example/"}}); status != http.StatusOK || !strings.HasPrefix(answer, "5 ") || len(references) > 0 {
		t.Errorf("a small body: %d %s, %d references", status, answer, len(references))
	}
	s.API().Call(t, "PUT", "/v1/gateway/nobody", map[string]any{"upload": "store"}, nil)
	blackbox.Eventually(t, "the setting holds", func() error {
		if status, answer := uploadTo(ctx, t, s, "nobody", bytes.NewReader(large[:2<<20]), nil); status != http.StatusServiceUnavailable || !strings.Contains(answer, "nobody-serves") {
			return fmt.Errorf("%d %s", status, answer)
		}
		return nil
	})
	unread := &counter{from: bytes.NewReader(large[:2<<20]), size: 2 << 20}
	if status, answer := uploadTo(ctx, t, s, "nobody", unread, http.Header{"Expect": {"100-continue"}}); status != http.StatusServiceUnavailable || !strings.Contains(answer, "nobody-serves") || unread.n > 0 {
		t.Errorf("a body that nobody would get: %d %s, %d bytes were asked for", status, answer, unread.n)
	}
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"too large":                    {bytes.NewReader(make([]byte, 5<<20)), http.StatusRequestEntityTooLarge},
		"too large, of unknown length": {io.MultiReader(bytes.NewReader(make([]byte, 5<<20))), http.StatusRequestEntityTooLarge},
	} {
		if status, answer := upload(ctx, t, s, c.body, nil); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, answer, c.want)
		}
	}
	if status, answer := upload(ctx, t, s, io.MultiReader(bytes.NewReader(make([]byte, 4<<20-1))), nil); status != http.StatusOK {
		t.Fatalf("the third: %d %s", status, answer)
	}
	<-references
	if status, answer := upload(ctx, t, s, bytes.NewReader(large), nil); status != http.StatusServiceUnavailable || !strings.Contains(answer, "uploads_space") {
		t.Errorf("one for which there is no room: %d %s", status, answer)
	}
	for name, c := range map[string]struct {
		old, with string
		want      int
	}{
		"its own":           {"", "", http.StatusOK},
		"another signature": {"signature=", "signature=0", http.StatusForbidden},
		"a later end":       {"expires=", "expires=9", http.StatusForbidden},
		"another app":       {"/demo/", "/shop/", http.StatusForbidden},
		"the key":           {kept[0][strings.Index(kept[0], "/demo/")+6 : strings.Index(kept[0], "?")], ".key", http.StatusForbidden},
	} {
		if status, body := fetch(t, strings.Replace(kept[0], c.old, c.with, 1)); status != c.want {
			t.Errorf("%s: %d %.100s, want %d", name, status, body, c.want)
		}
	}
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(s.Dir, "uploads", "demo", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if n := len(files()); n != 3 {
		t.Errorf("%d files are kept, want those of 3 calls", n)
	}
	// Kept are two of large and the third; refused are two that nobody serves at least, two that are too large, and one without room.
	for name, ok := range map[string]func(n float64) bool{
		`godwit_gateway_uploads_total{outcome="kept"}`:    func(n float64) bool { return n == 3 },
		`godwit_gateway_uploads_total{outcome="refused"}`: func(n float64) bool { return n >= 5 },
		"godwit_gateway_upload_bytes_total":               func(n float64) bool { return n == float64(2*len(large)+(4<<20-1)) },
	} {
		if n, err := s.API().Metric(ctx, name); err != nil || !ok(n) {
			t.Errorf("%s is %v, %v", name, n, err)
		}
	}
	if info, err := os.Stat(filepath.Join(s.Dir, "uploads", ".key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
}
