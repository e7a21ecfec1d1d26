package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// openSources opens real sources in a store; their Redis cannot be reached.
func (w *world) openSources(store *appdb.Store, log *slog.Logger) *source.Service {
	s, err := source.New(w.t.Context(), source.Config{
		Store: &store.Sources, Records: sourcetest.NewRecords(), Log: log,
		Kinds: map[string]source.Kind{streams.Name: streams.Kind{Dial: func(context.Context, streams.Target) (streams.Streams, error) {
			return nil, errors.New("no Redis is here")
		}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

type sourceView struct {
	Source, State           string
	URLs                    []string
	Recipients, Credentials []string
	Enabled                 bool
}

func TestSourceIsSetAndHidesItsPassword(t *testing.T) {
	w := newWorld(t)
	made := decode[sourceView](w.put("/v1/sources/redisstream", `{"urls":["redis://r.example:6379"],"password":"sekret","recipients":["ann"]}`).want(http.StatusCreated))
	if made.Source != "redisstream" || !made.Enabled || len(made.URLs) != 1 || len(made.Recipients) != 1 || len(made.Credentials) != 1 {
		t.Errorf("%+v", made)
	}
	again := w.put("/v1/sources/redisstream", `{"urls":["rediss://r.example:6379"],"enabled":false}`).want(http.StatusOK)
	if v := decode[sourceView](again); len(v.Credentials) != 1 || len(v.Recipients) != 0 || v.State != "paused" {
		t.Errorf("what was not named did not stay, or recipients were not replaced: %+v", v)
	}
	for _, a := range []answer{again, w.get("/v1/sources/redisstream").want(http.StatusOK), w.get("/v1/sources").want(http.StatusOK)} {
		if strings.Contains(a.body, "sekret") || !strings.Contains(a.body, `"credentials":["password"]`) {
			t.Errorf("shows %s", a.body)
		}
	}
	if v := decode[sourceView](w.put("/v1/sources/redisstream", `{"urls":["redis://r.example"],"password":null}`)); len(v.Credentials) != 0 {
		t.Errorf("a password was to be taken away: %+v", v)
	}
	if strings.Contains(w.log.String(), "sekret") {
		t.Error("the log shows the password")
	}
	w.do(request{method: "GET", path: "/v1/sources/redisstream", key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	w.delete("/v1/sources/redisstream").want(http.StatusNoContent)
	w.delete("/v1/sources/redisstream").problem(http.StatusNotFound, "not-found", "")
	w.put("/v1/sources/kafka", `{"urls":["redis://r.example"]}`).problem(http.StatusNotFound, "not-found", "")
}

func TestBadSourcesNameTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "urls", `{"urls":[]}`: "urls", `{"urls":"redis://a"}`: "urls", `{"urls":["http://a.example"]}`: "urls[0]",
		`{"urls":["redis://a.example","redis://u:sekret@b.example"]}`: "urls[1]", `{"urls":["redis://a.example?x=1"]}`: "urls[0]",
		`{"urls":["redis://a.example"],"recipients":["a b"]}`: "recipients[0]", `{"urls":["redis://a.example"],"recipients":["a/b"]}`: "recipients[0]",
		`{"urls":["redis://a.example"],"password":7}`: "password", `{"urls":["redis://a.example"],"enabled":1}`: "enabled",
		`{"urls":["redis://a.example"],"shards":1}`: "shards",
	} {
		a := w.put("/v1/sources/redisstream", body)
		a.problem(http.StatusBadRequest, "bad-input", field)
		if strings.Contains(a.body, "sekret") {
			t.Errorf("shows the password: %s", a.body)
		}
	}
	w.get("/v1/sources/redisstream").problem(http.StatusNotFound, "not-found", "")
}
