package clickhouse_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse/chdbtest"
	"godwit.dev/godwit/internal/sending/push"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func lives(from, n int) (evs []event.Event) {
	at := time.Now().Truncate(time.Minute)
	for i := range n {
		note := fmt.Sprint("n", (from+i)/2)
		e := event.Event{ID: uint64(1000 + from + i), App: "shop", Type: event.Stored, At: at, Note: note, To: "ann"}
		if (from+i)%2 == 1 {
			e.Type, e.At, e.Took, e.TookKnown = event.Acked, at.Add(40*time.Millisecond), 40*time.Millisecond, true
		}
		evs = append(evs, e)
	}
	return evs
}

func TestABatchThatComesTwiceCountsOnce(t *testing.T) {
	house, c := chdbtest.Start(t), client(t)
	open := func() *clickhouse.Writer {
		return clickhouse.New(clickhouse.Config{URL: house.URL, Database: "it`s", Keep: 90 * 24 * time.Hour, Client: c})
	}
	w := open()
	wide := lives(2000, 2)
	wide[1].Type, wide[1].Detail, wide[1].Channel, wide[1].Step = event.StepFailed, "no \xff token\x00 \U0001F926 \"quoted\"\\", "fcm", 3
	for _, batch := range [][]event.Event{lives(0, 1000), lives(0, 1000), lives(1000, 1000), wide, lives(0, 1000)} {
		if err := w.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w = open() // the schema is there already
	}
	if err := w.Write(t.Context(), lives(500, 1000)); err != nil { // batches with other bounds: ClickHouse merges the copies by their ids
		t.Fatal(err)
	}
	for q, want := range map[string]string{
		"SELECT count(), uniqExact(event_id) FROM `it\\`s`.event FINAL":                         "2002\t2002",
		"SELECT type, count() FROM `it\\`s`.event FINAL GROUP BY type ORDER BY type":            "acked\t1000\nstep_failed\t1\nstored\t1001",
		"SELECT channel, step, reconciled FROM `it\\`s`.event FINAL WHERE type = 'step_failed'": "fcm\t3\tfalse",
		"SELECT max(latency_ms[3]) FROM `it\\`s`.minute WHERE type = 'acked'":                   "40",
		"SELECT max(version), count() FROM `it\\`s`.schema_version":                             "2\t2",
	} {
		if got, err := house.Ask(q); err != nil || got != want {
			t.Errorf("%s\n%s, %v\nwant\n%s", q, got, err, want)
		}
	}
}

func TestTablesOfTheVersionBeforeGainCategories(t *testing.T) {
	house, c := chdbtest.Start(t), client(t)
	const keep = 90 * 24 * time.Hour
	ask := func(statement string) string {
		got, err := house.Ask(statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		return got
	}
	all := clickhouse.Schema("godwit", keep)
	before := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, "VALUES (1)") }) + 1
	for _, statement := range all[:before] {
		ask(statement)
	}
	const insert = "INSERT INTO godwit.event (app, event_id, type, at, id, recipient) VALUES ('shop', 1, 'stored', '%s', 'old', 'ann')"
	ask(fmt.Sprintf(insert, time.Now().UTC().Format("2006-01-02 15:04:05")))
	for _, statement := range all[before : len(all)-1] { // simulates a server that ended before it recorded the version
		ask(statement)
	}
	batch := lives(0, 4)
	for i := range batch {
		batch[i].Category = []string{"RIDE", "RIDE", "", "say \"hi\""}[i]
	}
	if err := clickhouse.New(clickhouse.Config{URL: house.URL, Database: "godwit", Keep: keep, Client: c}).Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for q, want := range map[string]string{
		"SELECT max(version) FROM godwit.schema_version":                                                             "2",
		"SELECT id, category FROM godwit.event FINAL ORDER BY event_id":                                              "old\t\nn0\tRIDE\nn0\tRIDE\nn1\t\nn1\tsay \"hi\"",
		"SELECT type, category, sum(events) FROM godwit.minute_category GROUP BY type, category ORDER BY 1, 2":       "acked\tRIDE\t1\nacked\tsay \"hi\"\t1\nstored\t\t2\nstored\tRIDE\t1",
		"SELECT type, sum(events), count() = uniqExact(minute) FROM godwit.minute GROUP BY type ORDER BY type":       "acked\t2\t1\nstored\t3\t1",
		"SELECT toString(max(latency_ms[3])) FROM godwit.minute_category WHERE type = 'acked' AND category = 'RIDE'": "40",
	} {
		if got := ask(q); got != want {
			t.Errorf("%s\n%q\nwant\n%q", q, got, want)
		}
	}
}

// TestReadingOfAnInboxIsAFunnel asks what docs/guides/clickhouse.md asks.
func TestReadingOfAnInboxIsAFunnel(t *testing.T) {
	house := chdbtest.Start(t)
	w := clickhouse.New(clickhouse.Config{URL: house.URL, Database: "godwit", Keep: 90 * 24 * time.Hour, Client: client(t)})
	at := time.Now().Add(-time.Hour).Truncate(time.Minute)
	var evs []event.Event
	add := func(typ event.Type, to string, took time.Duration) {
		evs = append(evs, event.Event{
			ID: uint64(1000 + len(evs)), App: "demo", Type: typ, At: at.Add(took), Note: "post-7", To: to, Category: "post", Took: took, TookKnown: took > 0,
		})
	}
	for i, to := range []string{"ann", "bob", "cid", "dan"} {
		add(event.Stored, to, 0)
		if i < 3 {
			add(event.Delivered, to, 10*time.Millisecond)
		}
		if i < 2 {
			add(event.Seen, to, 40*time.Second)
		}
	}
	add(event.Read, "ann", time.Minute)
	add(event.Read, "ann", 2*time.Minute) // it was unread meanwhile
	add(event.Archived, "ann", 3*time.Minute)
	if err := w.Write(t.Context(), evs); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../../docs/guides/clickhouse.md")
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(string(guide), "SELECT type, uniqExact(id, recipient)")
	query, _, found := strings.Cut(query, ";")
	got, err := house.Ask("SELECT type, uniqExact(id, recipient)" + query)
	if want := "stored\t4\t\\N\ndelivered\t3\t10\nseen\t2\t40000\nread\t1\t90000"; err != nil || !found || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestAnExceptionBehindAStatusOf200IsAFailure(t *testing.T) {
	for _, c := range []struct {
		header, trailer bool
		body            string
		fails           bool
	}{
		{body: ""},
		{body: "1\n"},
		{body: "<html>sign in</html>", fails: true},
		{body: "Poco::Exception. Code: 1000", fails: true},
		{body: strings.Repeat("\n", 70_000) + "Code: 395. DB::Exception: late\n", fails: true},
		{header: true, body: "1\n", fails: true},
		{trailer: true, body: "1\n", fails: true},
		{body: "Code: 209. DB::NetException: Timeout exceeded (SOCKET_TIMEOUT)\n", fails: true},
		{body: "1\nCode: 241, e.displayText() = DB::Exception: Memory limit\n", fails: true},
		{body: "{\"progress\":{\"read_rows\":\"1\"}}\n{\"exception\":\"Code: 395\"}\n", fails: true},
		{body: "1\n__exception__\r\nabcdefghijklmnop\r\nCode: 395.\r\n", fails: true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Query().Get("wait_end_of_query") != "1" {
				t.Error("the status does not wait for the statement's end")
			}
			insert := r.Header.Get("Content-Encoding") == "gzip"
			switch {
			case !insert:
				_, _ = io.WriteString(w, "1\n")
				return
			case c.header:
				w.Header().Set("X-ClickHouse-Exception-Code", "209")
			case c.trailer:
				w.Header().Set("Trailer", "X-ClickHouse-Exception-Code")
			}
			_, _ = io.WriteString(w, c.body)
			if c.trailer {
				w.Header().Set("X-ClickHouse-Exception-Code", "209")
			}
		}))
		w := clickhouse.New(clickhouse.Config{URL: server.URL, Database: "godwit", Client: client(t)})
		err := w.Write(t.Context(), lives(0, 1))
		var retry *push.RetryError
		if c.fails != errors.As(err, &retry) || !c.fails && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		server.Close()
	}
}

func TestRefusalsStopAndFaultsAreTriedAgain(t *testing.T) {
	status, header := http.StatusOK, http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = io.WriteString(w, "1\n")
			return
		}
		_, _ = fmt.Fprintf(w, "Code: 516. Authentication failed for sekret\n at 0x%s", strings.Repeat("f", 1000))
	}))
	defer server.Close()
	w := clickhouse.New(clickhouse.Config{URL: server.URL, Database: "godwit", User: "u", Password: "sekret", Client: client(t)})
	for _, c := range []struct {
		status int
		after  string
		stops  bool
		wait   time.Duration
	}{{status: 403, stops: true}, {status: 404, stops: true}, {status: 500}, {status: 503, after: "7", wait: 7 * time.Second}, {status: 429}} {
		status = c.status
		header = http.Header{}
		if c.after != "" {
			header.Set("Retry-After", c.after)
		}
		err := w.Write(t.Context(), lives(0, 1))
		var stop *sink.StopError
		var retry *push.RetryError
		switch {
		case c.stops && !errors.As(err, &stop), !c.stops && !errors.As(err, &retry):
			t.Errorf("%d: %v", c.status, err)
		case !c.stops && retry.After != c.wait:
			t.Errorf("%d: after %s", c.status, retry.After)
		case strings.Contains(err.Error(), "sekret") || len(err.Error()) > 400 || !strings.Contains(err.Error(), fmt.Sprint(c.status)):
			t.Errorf("%d: %v", c.status, err)
		}
	}
	status = http.StatusOK
	if err := w.Write(t.Context(), lives(0, 1)); err != nil {
		t.Error(err)
	}
	server.Close()
	var retry *push.RetryError
	if err := w.Write(t.Context(), lives(0, 1)); !errors.As(err, &retry) {
		t.Errorf("it is away: %v", err)
	}
}

func TestABatchIsCompressedLinesWithAToken(t *testing.T) {
	var query, lines string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") == "gzip" {
			zip, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(zip)
			query, lines = r.URL.Query().Get("insert_deduplication_token")+" "+r.Header.Get("X-ClickHouse-User"), string(b)
		}
		_, _ = io.WriteString(w, "1")
	}))
	defer server.Close()
	w := clickhouse.New(clickhouse.Config{URL: server.URL, Database: "godwit", User: "u", Client: client(t)})
	if err := w.Write(t.Context(), lives(0, 2)); err != nil {
		t.Fatal(err)
	}
	if query != "shop-1000-1001 u" || strings.Count(lines, "\n") != 2 || strings.Count(lines, "latency_ms") != 1 || !strings.Contains(lines, `"latency_ms":40}`) {
		t.Errorf("%s\n%s", query, lines)
	}
}
