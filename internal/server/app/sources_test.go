package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func xadd(t *testing.T, r *redisserver.Server, who, id string) {
	t.Helper()
	_, err := r.Do("XADD N" + who + "{3} * id " + id + " category NEW_RIDE title Ride body Near show SHOW entity.id e entity.type Product entity.data {} " +
		"created_at 2026-11-20T23:23:58Z ttl " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	if err != nil {
		t.Fatal(err)
	}
}

// says polls until an answer contains a text.
func says(t *testing.T, url, text string) (body string) {
	t.Helper()
	if !eventually.Holds(func() bool {
		_, body, _ = ask(t, "GET", url, "")
		return strings.Contains(body, text)
	}) {
		t.Fatalf("%s does not say %q but %s", url, text, body)
	}
	return body
}

func TestSourceBringsWhatPublishersAddToRedis(t *testing.T) {
	r, cfg := redistest.Start(t), settings(t)
	xadd(t, r, "ann", "before")
	if _, err := r.Do("XADD Nann{3} * id broken"); err != nil {
		t.Fatal(err)
	}

	cfg.DevAnyAddress = true // so that development opens nothing
	a := start(t, cfg)
	api := "http://" + a.Addresses().HTTP
	if status, body, _ := ask(t, "PUT", api+"/v1/sources/redisstream", `{"urls":["`+r.URL()+`"]}`); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	says(t, api+"/v1/sources/redisstream", "which is not public: the operator may allow it with allow_targets")
	stop(t, a)

	cfg.AllowTargets = "127.0.0.1"
	a = start(t, cfg)
	api = "http://" + a.Addresses().HTTP
	says(t, api+"/v1/notifications/before?to=ann", `"status":"stored"`)
	xadd(t, r, "bob", "after")
	says(t, api+"/v1/notifications/after?to=bob", `"status":"stored"`)
	var info struct {
		State, Finding string
		Counts         struct{ Stored, Quarantined int }
	}
	body := says(t, api+"/v1/sources/redisstream", `"stored":2,`)
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.State != "running" || info.Finding != "tracking" || info.Counts.Quarantined != 1 {
		t.Errorf("%s, %v", body, err)
	}
	for key, want := range map[string]string{"Nann{3}": "0", "Nbob{3}": "0", "godwit:quarantine{3}": "1"} {
		if err := r.Await("XLEN "+key, want); err != nil { // an entry goes a moment after it is stored
			t.Error(err)
		}
	}
	if _, metrics, _ := ask(t, "GET", api+"/metrics", ""); !strings.Contains(metrics, `godwit_source_entries_total{outcome="stored",source="redisstream"} 2`) {
		t.Error("the metrics do not count what was stored")
	}
}
