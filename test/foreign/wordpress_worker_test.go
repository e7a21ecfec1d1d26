package foreign

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// serve starts PHP's own web server on the site, and returns its address.
func serve(t *testing.T, settings string) string {
	t.Helper()
	at := blackbox.Free(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), blackbox.Tool(t, "php"), "-S", at, "../wordpress/testdata/router.php")
	cmd.Env = append(cmd.Environ(), "GODWIT_SETTINGS="+settings, "GODWIT_PLUGIN="+plugin())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	err := blackbox.Poll(t.Context(), time.Minute, func() error {
		_, err := getPage(t, "http://"+at+"/blog/")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + at
}

type pageAnswer struct {
	status int
	header http.Header
	body   string
}

func getPage(t *testing.T, url string) (a pageAnswer, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return a, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return pageAnswer{resp.StatusCode, resp.Header, string(body)}, err
}

func TestTheWorkerIsServedAtItsAddressAlone(t *testing.T) {
	blackbox.Long(t)
	site := serve(t, `{"server":"https://push.example.org","app":"news"}`)
	for _, path := range []string{"/blog/godwit-sw.js", "/blog/?godwit-worker=1"} {
		a, err := getPage(t, site+path)
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusOK || a.body != "importScripts(\"https://push.example.org/sdk/sw.js\");\n" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		for name, want := range map[string]string{"Content-Type": "application/javascript", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"} {
			if got := a.header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		if got := a.header.Get("Service-Worker-Allowed"); got != "" {
			t.Errorf("%s may take over %s", path, got)
		}
	}
	for _, path := range []string{"/blog/", "/godwit-sw.js", "/blog/a/godwit-sw.js", "/blog/sw.js", "/blog/a?godwit-worker=1"} {
		if a, err := getPage(t, site+path); err != nil || a.body != "a page" {
			t.Errorf("%s: %v %s", path, err, a.body)
		}
	}
}

func TestWithoutAServerThereIsNoWorker(t *testing.T) {
	blackbox.Long(t)
	site := serve(t, `{}`)
	if a, err := getPage(t, site+"/blog/godwit-sw.js"); err != nil || a.status != http.StatusNotFound || a.body != "" {
		t.Error(fmt.Sprint(err, a))
	}
}
