package sources

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

func TestAMappingIsPreviewedBeforeItsSourceIsStored(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Options{}) // the log need not be ready yet
	w := &writer{office: newOffice(logged{postgres{db.URL()}}, 0, 1, 1, nil)}
	defer w.close()
	if err := w.exec(t.Context(), "CREATE TABLE rides (driver text, street text); INSERT INTO rides VALUES ('ann', 'Main'), (NULL, 'Lost');"); err != nil {
		t.Fatal(err)
	}
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	tables := `[{"table":"rides","recipient":"driver","title":"New ride","data":["street"]}]`
	const becomes, refused = `{"to":["ann"],"title":"New ride","data":{"street":"Main"}}`, "the column driver of public.rides is null"

	a, err := s.API().Do(t.Context(), http.MethodPost, "/v1/sources/orders/preview", map[string]any{"kind": "postgres", "url": db.URL(), "tables": []any{
		map[string]any{"table": "rides", "recipient": "driver", "title": "New ride", "data": []string{"street"}},
	}})
	if err != nil || a.Status != http.StatusOK || !strings.HasPrefix(string(a.Body), `{"tables":[{"table":"public.rides","rows":[{"from":{"driver":"ann","street":"Main"},"entry":`+becomes+`},{"from":{"driver":null,"street":"Lost"},"error":"`+refused) {
		t.Errorf("%d %s, %v", a.Status, a.Body, err)
	}
	for path, want := range map[string]int{"/v1/sources/orders/preview": 404, "/v1/sources/postgres/preview": 404, "/v1/sources/redisstream/preview": 400} {
		if a, err := s.API().Do(t.Context(), http.MethodPost, path, nil); err != nil || a.Status != want {
			t.Errorf("%s: %d %s, %v, want %d", path, a.Status, a.Body, err, want)
		}
	}

	file := filepath.Join(t.TempDir(), "tables.json")
	if err := os.WriteFile(file, []byte(tables), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"source", "preview", "orders", "--kind", "postgres", "--postgres-url", db.URL(), "--tables", file, "--app", "demo", "--data", s.Dir}
	out, err := s.Run(flags...)
	if want := "public.rides\n  row      {\"driver\":\"ann\",\"street\":\"Main\"}\n  becomes  " + becomes + "\n  row      {\"driver\":null,\"street\":\"Lost\"}\n  refused  " + refused; err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if out, err = s.Run(append(flags, "--json")...); err != nil || !strings.HasPrefix(out, `{"tables":[{"table":"public.rides","rows":[`) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = s.Run("source", "list", "--app", "demo", "--data", s.Dir); err != nil || strings.Contains(out, "orders") {
		t.Errorf("a preview has stored a source: %v\n%s", err, out)
	}
}

func TestAStoredPasswordIsSentNowhereElse(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	api := s.API()
	api.Call(t, http.MethodPut, "/v1/sources/postgres", map[string]any{"url": "postgres://godwit@127.0.0.1:1/shop", "password": "sekret"}, nil)
	elsewhere := map[string]any{"url": "postgres://godwit@127.0.0.1:2/shop"}
	for method, path := range map[string]string{http.MethodPut: "/v1/sources/postgres", http.MethodPost: "/v1/sources/postgres/preview"} {
		a, err := api.Do(t.Context(), method, path, elsewhere)
		want := `password: was stored for godwit@127.0.0.1:1, and this change would send it to godwit@127.0.0.1:2: give it again`
		if err != nil || a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), want) || !strings.Contains(string(a.Body), `"field":"password"`) || strings.Contains(string(a.Body), "sekret") {
			t.Errorf("%s %s: %d %s, %v", method, path, a.Status, a.Body, err)
		}
	}
	out, err := s.Run("source", "add", "postgres", "--postgres-url", elsewhere["url"].(string), "--app", "demo", "--data", s.Dir)
	if err == nil || !strings.Contains(out, "give it again") {
		t.Errorf("%v\n%s", err, out)
	}
	elsewhere["password"] = "another"
	api.Call(t, http.MethodPut, "/v1/sources/postgres", elsewhere, nil)
}
