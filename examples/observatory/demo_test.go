package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/test/blackbox"
)

// interpreter finds the Python with the packages that the client needs; the client itself is the one in this repository.
func interpreter(t *testing.T) (python string, env []string) {
	t.Helper()
	python = filepath.Join(blackbox.Root(), ".bin", "python", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		blackbox.Skip(t, "the Python client's packages are not installed: run make python-test")
	}
	return python, []string{"PYTHONPATH=" + filepath.Join(blackbox.Root(), "clients", "python", "src")}
}

// printed is the port in the guide's listing.
const printed = "50051"

// unitsPort returns the port for units: the listing's port, or another one if that is in use.
func unitsPort() string {
	l, err := net.Listen("tcp", "127.0.0.1:"+printed)
	if err != nil {
		return "127.0.0.1:0"
	}
	l.Close()
	return l.Addr().String()
}

func TestDemonstrationPlaysAndTheListingRunsAgainstIt(t *testing.T) {
	blackbox.Long(t)
	python, env := interpreter(t)
	var mu sync.Mutex
	var said []string
	o := &options{
		godwit: blackbox.Binary(t, false), python: python, env: env, units: "units.py", dir: t.TempDir(),
		http: "127.0.0.1:0", grpc: unitsPort(), backend: "127.0.0.1:0", once: true,
		say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, strings.TrimSpace(fmt.Sprintf(format, args...)))
		},
	}
	o.encore = func(ctx context.Context, s *stage, at addresses) error { return playListing(ctx, t, s, at) }
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	if err := demo(ctx, o); err != nil {
		t.Fatalf("%v\nwhat was said:\n%s", err, strings.Join(said, "\n"))
	}
	var told []string
	back := false
	for _, line := range said {
		back = back || strings.HasPrefix(line, "3. ")
		if back && strings.HasPrefix(line, "observer-2 has ") {
			told = append(told, line)
		}
	}
	if len(told) != 1 || told[0] != "observer-2 has camera-config version 23" {
		t.Errorf("the unit that was away was told %q", told)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "region-1:observer-2  online true  sent 23, acknowledged 23") {
		t.Errorf("what was said:\n%s", text)
	}
}

// driver runs the listing, but pauses where a program would continue with its work, until it has received the version.
const driver = `
import sys, threading
text = open(sys.argv[1]).read()
setup, use = text.split("notify.connect()", 1)
follow, leave = use.split("notify.unregister", 1)
names, told = {}, threading.Event()
exec(setup, names)
printed = names["update"]
names["update"] = lambda version: (printed(version), told.set())
exec("notify.connect()" + follow, names)
if not told.wait(30):
    sys.exit("no version came")
exec("notify.unregister" + leave, names)
`

// playListing runs the guide's listing exactly as printed, and once more with pauses that let it receive a version.
func playListing(ctx context.Context, t *testing.T, s *stage, at addresses) error {
	text, err := os.ReadFile("listing.py")
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(at.GRPC)
	if err != nil {
		return err
	}
	if port != printed {
		text = []byte(strings.ReplaceAll(string(text), "port="+printed, "port="+port))
	}
	listing := filepath.Join(s.dir, "listing.py")
	if err := os.WriteFile(listing, text, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"-c", driver, listing}, {listing}} {
		cmd := exec.CommandContext(ctx, s.python, args...)
		cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("the listing: %w\n%s", err, out)
		}
		if args[0] == "-c" && !strings.Contains(string(out), "camera-config is at version 23") {
			t.Errorf("the listing printed %q", out)
		}
	}
	list, err := s.client.Registrations(ctx, group, "camera-config")
	for _, r := range list {
		if strings.HasSuffix(r.Recipient, yours) {
			t.Errorf("the listing has unregistered, but the server has %+v", r)
		}
	}
	return err
}

func TestCertificatesNameTheirUnitsAndAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	if err := makeCertificates(dir, []string{"observer-2"}); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for file, uri := range map[string]string{
		"client": "godwit://animal.observer/region-1/region-1:observer-1", "observer-2": "godwit://animal.observer/region-1/region-1:observer-2",
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if len(pair.Leaf.URIs) != 1 || pair.Leaf.URIs[0].String() != uri {
			t.Errorf("%s names %v", file, pair.Leaf.URIs)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "client.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := makeCertificates(dir, []string{"observer-2"}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "client.crt")); err != nil || string(after) != string(before) {
		t.Errorf("made again: %v", err)
	}
}

func TestBackEndPublishesAtThePaceThatIsAskedFor(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	c, err := godwit.New("http://"+s.HTTP, godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	srv := httptest.NewServer((&backend{c}).handler())
	defer srv.Close()
	call := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, strings.TrimSpace(string(b))
	}
	start := time.Now()
	status, body := call("POST", "/notify/region-1/camera-config/4/20")
	if status != 200 || body != `{"group":"region-1","object":"camera-config","puts":4,"version":"4"}` {
		t.Errorf("%d %s", status, body)
	}
	if took := time.Since(start); took < 150*time.Millisecond {
		t.Errorf("4 at 20 a second took %s", took)
	}
	if status, body := call("GET", "/units/region-1/camera-config"); status != 200 || body != "[]" {
		t.Errorf("%d %s", status, body)
	}
	for path, want := range map[string]int{
		"/notify/region-1/a/0/1": 400, "/notify/region-1/a/x/1": 400, "/notify/region-1/a/1/0": 400, "/notify/region-1/a/1/NaN": 400,
		"/notify/region-1/a/1/1/1": 404, "/notify/region-1/a%20b/1/1": 502,
	} {
		if status, body := call("POST", path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestListingIsThatOfTheGuide(t *testing.T) {
	listing, err := os.ReadFile("listing.py")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(blackbox.Root(), "docs", "migrate", "coldnotify.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(listing), "\n\n\n") // after the program's own part
	if !ok || !strings.Contains(string(guide), "```python\n"+body+"```") {
		t.Errorf("the guide does not print\n%s", body)
	}
}
