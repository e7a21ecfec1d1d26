package httpapi_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// openSinks makes a real sink service on a store; nothing is written to its sinks.
func (w *world) openSinks(store *appdb.Store, log *slog.Logger) *sink.Service {
	s, err := sink.New(w.t.Context(), sink.Config{Store: &store.Sinks, Kinds: map[string]sink.Kind{clickhouse.Name: clickhouse.Kind{}}, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

type sinkView struct {
	Sink, State, URL, Database, User, Keep string
	Credentials                            []string
	Enabled                                bool
}

func TestSinkIsSetAndHidesItsPassword(t *testing.T) {
	w := newWorld(t)
	made := decode[sinkView](w.put("/v1/sinks/clickhouse", `{"url":"https://c.example:8443","user":"godwit","password":"sekret","keep":"30d"}`).want(http.StatusCreated))
	if made.Sink != "clickhouse" || !made.Enabled || made.Database != "godwit" || made.User != "godwit" || made.Keep != "30d" || len(made.Credentials) != 1 || made.State != "waiting" {
		t.Errorf("%+v", made)
	}
	again := w.put("/v1/sinks/clickhouse", `{"enabled":false}`).want(http.StatusOK)
	if v := decode[sinkView](again); len(v.Credentials) != 1 || v.URL != "https://c.example:8443" || v.State != "disabled" {
		t.Errorf("what was not named did not stay: %+v", v)
	}
	for _, a := range []answer{again, w.get("/v1/sinks/clickhouse").want(http.StatusOK), w.get("/v1/sinks").want(http.StatusOK)} {
		if strings.Contains(a.body, "sekret") || !strings.Contains(a.body, `"credentials":["password"]`) {
			t.Errorf("shows %s", a.body)
		}
	}
	if v := decode[sinkView](w.put("/v1/sinks/clickhouse", `{"password":null}`)); len(v.Credentials) != 0 {
		t.Errorf("a password was to be taken away: %+v", v)
	}
	if strings.Contains(w.log.String(), "sekret") {
		t.Error("the log shows the password")
	}
	w.do(request{method: "GET", path: "/v1/sinks/clickhouse", key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	w.delete("/v1/sinks/clickhouse").want(http.StatusNoContent)
	w.delete("/v1/sinks/clickhouse").problem(http.StatusNotFound, "not-found", "")
	w.put("/v1/sinks/kafka", `{"url":"https://c.example"}`).problem(http.StatusNotFound, "not-found", "")
}

// Clients may rely on the order.
func TestASinkShowsItsMembersInTheOrderThatTheyAlwaysHad(t *testing.T) {
	w := newWorld(t)
	w.put("/v1/sinks/clickhouse", `{"url":"https://c.example:8443","password":"sekret","keep":"720h","backfill":true}`).want(http.StatusCreated)
	const begins = `{"sink":"clickhouse","url":"https://c.example:8443","database":"godwit","user":"","credentials":["password"],"keep":"30d","enabled":true,"state":"waiting",` +
		`"failing_since":null,"written":0,"reconciled":0,"gaps":0,"last_written_at":null,"lag_ms":0,"created_at":"`
	if a := w.get("/v1/sinks/clickhouse").want(http.StatusOK); !strings.HasPrefix(a.body, begins) {
		t.Errorf("got %s, want %s", a.body, begins)
	}
}

func TestBadSinksNameTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "url", `{"url":7}`: "url", `{"url":"ftp://c.example"}`: "url", `{"url":"https://u:sekret@c.example"}`: "url", `{"url":"https://c.example?password=sekret"}`: "url",
		`{"url":"https://c.example","database":"a b"}`: "database", `{"url":"https://c.example","database":""}`: "database", `{"url":"https://c.example","keep":"1h"}`: "keep",
		`{"url":"https://c.example","keep":"long"}`: "keep", `{"url":"https://c.example","keep":"4000d"}`: "keep", `{"url":"https://c.example","password":7}`: "password",
		`{"url":"https://c.example","enabled":1}`: "enabled", `{"url":"https://c.example","backfill":"yes"}`: "backfill", `{"url":"https://c.example","table":"x"}`: "table",
	} {
		a := w.put("/v1/sinks/clickhouse", body)
		a.problem(http.StatusBadRequest, "bad-input", field)
		if strings.Contains(a.body, "sekret") {
			t.Errorf("shows the password: %s", a.body)
		}
	}
	w.get("/v1/sinks/clickhouse").problem(http.StatusNotFound, "not-found", "")
}
