package uploads_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/uploads"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// world is a folder with a store, and a clock.
type world struct {
	folder *uploads.Folder
	store  *uploads.Store
	now    time.Time
	dir    string
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{dir: dir, now: time.Now()}
	w.folder = uploads.NewFolder(uploads.FolderConfig{Dir: dir, Keep: 24 * time.Hour, Most: 100})
	w.store = uploads.New(uploads.Config{Place: w.folder, Max: 60, Keep: 24 * time.Hour, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)})
	return w
}

// put keeps a body and returns its URL.
func (w *world) put(t *testing.T, app, body string) (url string, drop func()) {
	t.Helper()
	h, drop, err := w.store.Put(t.Context(), app, -1, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return h["Godwit-Upload-Url"][0], drop
}

// get fetches a URL, and returns the body or the status of a refusal.
func (w *world) get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	route := w.folder.Route(func() time.Time { return w.now })
	mux := http.NewServeMux()
	var failed error
	mux.HandleFunc(route.Pattern, func(rw http.ResponseWriter, r *http.Request) {
		failed = route.Serve(&call.Call{W: rw, R: r, Ctx: r.Context()})
	})
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, url, http.NoBody))
	if failed != nil {
		return problem.From(failed).Status, ""
	}
	return rec.Code, rec.Body.String()
}

func (w *world) files(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(w.dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestReferencesEndAndOutliveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "uploads"))
	url, _ := w.put(t, "shop", "hello")
	again := newWorld(t, w.dir)
	for _, one := range []*world{w, again} {
		if status, body := one.get(t, url); status != http.StatusOK || body != "hello" {
			t.Errorf("%d %q", status, body)
		}
	}
	w.now = w.now.Add(24*time.Hour + time.Second)
	if status, _ := w.get(t, url); status != http.StatusForbidden {
		t.Errorf("after its end: %d", status)
	}
}

func TestOldUploadsAreDeletedAndLeaveRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.put(t, "shop", strings.Repeat("x", 50))
	url, drop := w.put(t, "blog", strings.Repeat("x", 50))
	if _, _, err := w.store.Put(t.Context(), "shop", -1, strings.NewReader("x")); problem.From(err).Status != http.StatusServiceUnavailable {
		t.Errorf("without room: %v", err)
	}
	drop()
	if status, _ := w.get(t, url); status != http.StatusNotFound {
		t.Errorf("a deleted one: %d", status)
	}
	left := filepath.Join(w.dir, "shop", ".part-of-a-killed-server")
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.folder.Sweep(t.Context(), w.now); err != nil || w.files(t) != 2 {
		t.Errorf("a day before their time %d are left, %v", w.files(t), err)
	}
	if err := w.folder.Sweep(t.Context(), w.now.Add(25*time.Hour)); err != nil || w.files(t) != 0 {
		t.Errorf("after their time %d are left, %v", w.files(t), err)
	}
	w.put(t, "shop", strings.Repeat("x", 60))
	w.put(t, "blog", strings.Repeat("x", 40))
	if err := w.folder.EraseApp(t.Context(), "shop"); err != nil || w.files(t) != 1 {
		t.Errorf("after an app was erased %d are left, %v", w.files(t), err)
	}
	w.put(t, "blog", strings.Repeat("x", 60))
}

func TestUploadsThatFailLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	gone := errors.New("the caller has gone")
	for name, c := range map[string]struct {
		size int64
		body io.Reader
		want int
	}{
		"too large":               {61, strings.NewReader(""), http.StatusRequestEntityTooLarge},
		"too large, without size": {-1, strings.NewReader(strings.Repeat("x", 61)), http.StatusRequestEntityTooLarge},
		"cut off":                 {-1, io.MultiReader(strings.NewReader("x"), failing{gone}), http.StatusBadRequest},
	} {
		if _, _, err := w.store.Put(t.Context(), "shop", c.size, c.body); problem.From(err).Status != c.want {
			t.Errorf("%s: %v, want %d", name, err, c.want)
		}
	}
	if n := w.files(t); n != 0 {
		t.Errorf("%d files are left", n)
	}
	w.put(t, "shop", strings.Repeat("x", 60)) // all room is free again
	w.put(t, "shop", strings.Repeat("x", 40))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
