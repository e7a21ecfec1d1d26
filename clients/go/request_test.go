package godwit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a transport that returns its answers one after the other and then repeats the last.
type answers struct {
	list   []func(*http.Request) (*http.Response, error)
	bodies []string
	at     []time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.bodies, a.at = append(a.bodies, string(b)), append(a.at, time.Now())
	return a.list[min(len(a.bodies), len(a.list))-1](r)
}

func answer(status int, retryAfter, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{}
		if retryAfter != "" {
			h.Set("Retry-After", retryAfter)
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func refuse(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

const stored = `{"id":"x","to":"a","status":"stored","duplicate":false,"expires_at":"2026-01-02T03:04:05.000Z"}`

func scriptedClient(t *testing.T, a *answers, opts ...Option) *Client {
	t.Helper()
	c, err := New("http://example.org/base/", append([]Option{WithHTTPClient(&http.Client{Transport: a}), WithAPIKey("k")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPublishIsRetriedUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{list: []func(*http.Request) (*http.Response, error){
			refuse, answer(503, "", `{"title":"x"}`), answer(502, "", "<html>"), answer(201, "", stored),
		}}
		r, err := scriptedClient(t, a).Publish(t.Context(), Publication{To: "a"})
		if err != nil || r.Status != "stored" {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(a.bodies) != 4 {
			t.Fatalf("%d tries", len(a.bodies))
		}
		for _, b := range a.bodies[1:] {
			if b != a.bodies[0] || !strings.Contains(b, `"id":"0`) {
				t.Errorf("tried %s after %s", b, a.bodies[0])
			}
		}
	})
}

func TestRetryAfterIsHonouredAndAShorterDeadlineEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{list: []func(*http.Request) (*http.Response, error){answer(429, "30", `{"title":"Mailbox is full"}`), answer(201, "", stored)}}
		if _, err := scriptedClient(t, a).Publish(t.Context(), Publication{To: "a"}); err != nil {
			t.Fatal(err)
		}
		if wait := a.at[1].Sub(a.at[0]); wait < 30*time.Second || wait > 31*time.Second {
			t.Errorf("waited %s", wait)
		}
		a = &answers{list: a.list[:1]}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := scriptedClient(t, a).Publish(ctx, Publication{To: "a"})
		var e *Error
		if !errors.As(err, &e) || e.Status != 429 || e.RetryAfter != 30*time.Second || time.Since(start) != 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestPermanentFailureIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 501} {
			a := &answers{list: []func(*http.Request) (*http.Response, error){answer(status, "", `{"detail":"no","field":"to"}`)}}
			_, err := scriptedClient(t, a).Publish(t.Context(), Publication{To: "a"})
			var e *Error
			if !errors.As(err, &e) || e.Status != status || e.Field != "to" || len(a.bodies) != 1 {
				t.Errorf("%d: %d tries, %v", status, len(a.bodies), err)
			}
		}
	})
}

func TestTriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{list: []func(*http.Request) (*http.Response, error){refuse}}
		_, err := scriptedClient(t, a, WithAttempts(3)).Publish(t.Context(), Publication{To: "a"})
		if err == nil || len(a.bodies) != 3 {
			t.Errorf("%d tries, %v", len(a.bodies), err)
		}
	})
}

func TestRetriesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		tell := WithOnRetry(func(err error, after time.Duration) { told = append(told, err.Error()+" in "+after.String()) })
		full := `{"type":"/problems/no-space","status":503,"title":"Disk is full"}`
		a := &answers{list: []func(*http.Request) (*http.Response, error){answer(503, "30", full), answer(201, "", stored)}}
		if _, err := scriptedClient(t, a, tell).Publish(t.Context(), Publication{To: "a"}); err != nil {
			t.Error(err)
		}
		a = &answers{list: []func(*http.Request) (*http.Response, error){
			answer(200, "", `{"to":"a","id":"x","error":{"status":503,"title":"Disk is full"}}`), answer(200, "", `{"id":"x","to":"a","status":"stored"}`),
		}}
		if _, err := scriptedClient(t, a, tell).PublishBatch(t.Context(), []Publication{{To: "a", ID: "x"}}); err != nil {
			t.Error(err)
		}
		if len(told) != 2 || told[0] != "server answered 503: disk is full in 30s" || !strings.Contains(told[1], "disk is full in ") {
			t.Errorf("told %q", told)
		}
	})
}

func TestOneTryThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{list: []func(*http.Request) (*http.Response, error){
			func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
			answer(201, "", stored),
		}}
		start := time.Now()
		if _, err := scriptedClient(t, a, WithRequestTimeout(time.Minute)).Publish(t.Context(), Publication{To: "a"}); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+requestBase {
			t.Errorf("took %s", took)
		}
	})
}

func TestBatchRetriesOnlyTheLinesThatMaySucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{list: []func(*http.Request) (*http.Response, error){
			answer(200, "", stored+"\n"+`{"to":"b","id":"y","error":{"status":503,"title":"Disk is full"}}`+"\n"+`{"to":"c","id":"z","error":{"status":400,"title":"Bad input"}}`),
			answer(200, "", `{"id":"y","to":"b","status":"stored"}`),
		}}
		rs, err := scriptedClient(t, a).PublishBatch(t.Context(), []Publication{{To: "a", ID: "x"}, {To: "b", ID: "y"}, {To: "c", ID: "z"}})
		if err != nil || rs[0].Err != nil || rs[1].Err != nil || rs[1].Status != "stored" || rs[2].Err == nil {
			t.Errorf("%+v, %v", rs, err)
		}
		if len(a.bodies) != 2 || strings.Count(a.bodies[1], "\n") != 1 || !strings.Contains(a.bodies[1], `"id":"y"`) {
			t.Errorf("sent %q", a.bodies)
		}
	})
}

func TestDataTravelsAsWhatItIs(t *testing.T) {
	for _, tt := range []struct {
		data, contentType, wantData, wantBase64, wantType string
	}{
		{`{"a":1}`, "", `{"a":1}`, "", ""},
		{"plain", "", `"plain"`, "", "text/plain; charset=utf-8"},
		{"\xff\x00", "", "", "/wA=", "application/octet-stream"},
		{"<a/>", "application/xml", `"\u003ca/\u003e"`, "", "application/xml"},
		{"", "", "", "", ""},
	} {
		p := Publication{Data: []byte(tt.data), ContentType: tt.contentType}
		w, err := p.wire("a")
		if err != nil || string(w.Data) != tt.wantData || w.DataBase64 != tt.wantBase64 || w.ContentType != tt.wantType {
			t.Errorf("%q: data %s, base64 %s, type %s, %v", tt.data, w.Data, w.DataBase64, w.ContentType, err)
		}
	}
	p := Publication{Data: []byte("{"), ContentType: "application/json"}
	if _, err := p.wire("a"); err == nil {
		t.Error("broken JSON accepted")
	}
}

func TestRepliesAreWrittenAsTheyWereRead(t *testing.T) {
	for _, text := range []string{
		`{"status":200,"content_type":"application/json","data":{"a":1}}`, `{"status":202,"content_type":"text/plain","data":"yes"}`,
		`{"status":200,"content_type":"image/png","data_base64":"/wA="}`, `{"status":200,"content_type":"application/json","data_base64":"ew=="}`,
		`{"status":204,"content_type":""}`, `{"status":200,"content_type":"text/plain"}`,
	} {
		var s Status
		if err := json.Unmarshal([]byte(`{"reply":`+text+`}`), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if b, err := json.Marshal(s.Reply); err != nil || string(b) != text {
			t.Errorf("%s is written %s, %v", text, b, err)
		}
	}
}

func TestServerAddressIsChecked(t *testing.T) {
	for _, bad := range []string{"", "example.org", "ftp://example.org", "http://", "http://[::1", "://"} {
		if _, err := New(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestFrameDurationsAreReadInEveryForm(t *testing.T) {
	for text, want := range map[string]time.Duration{`"30s"`: 30 * time.Second, `"1500ms"`: 1500 * time.Millisecond, `"7d"`: 7 * 24 * time.Hour, `45`: 45 * time.Second, `"45"`: 45 * time.Second} {
		var d wireTime
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %s, %v", text, time.Duration(d), err)
		}
	}
	var d wireTime
	if json.Unmarshal([]byte(`"soon"`), &d) == nil {
		t.Error("soon accepted")
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"welcome":{"session":"s","app":"a","recipient":"r","heartbeat":"30s","server_time":"2026-01-02T03:04:05Z"}}`,
		`{"notification":{"id":"x","seq":1,"title":"t","data":{"a":1},"priority":"high"}}`,
		`{"notification":{"id":"x","data":"text","content_type":"text/plain"}}`,
		`{"notification":{"id":"x","data_base64":"AAE=","content_type":"image/png"}}`,
		`{"recall":{"ids":["a","b"]}}`, `{"goodbye":{"reason":"shutdown","retry_after":"3s"}}`,
		`{"error":{"code":"bad_frame","message":"m"}}`, `{"pong":{"digest":"00000000000000ff"}}`,
		`{"registered":{"objects":["a"],"digest":"0000000000000000","group":"g"}}`, `{"registration_failed":{"objects":["a"],"code":"forbidden","transient":false}}`,
		`{"object":{"group":"g","object":"a","version":"7","payload":{"x":1},"unknown":false}}`, `{"object":{"group":"g","object":"a","unknown":true}}`,
		`{"object":{"object":"a","version":7,"payload_base64":"AAE=","content_type":"image/png"}}`, `{"pong":{}}`, `{}`, `[]`, `{"later":{}}`,
		`{"notification":{"id":"ride-9f3","data":[NaN]}}`, `{"notification":{"id":"ride-9f3","later":[[1e400}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame := decodeJSON(b)
		if frame.Notification != nil && frame.Notification.ContentType == "application/json" && !bytes.Contains(b, frame.Notification.Data) {
			t.Errorf("data %q is not part of %q", frame.Notification.Data, b)
		}
	})
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for h, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(h, now); got != want {
			t.Errorf("%q is %s, want %s", h, got, want)
		}
	}
}

func TestTokenExpiryIsReadFromAJWT(t *testing.T) {
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIiwiZXhwIjoxNzAwMDAwMDAwfQ.c2ln"
	if got := (Token{Value: jwt}).expires(); got.Unix() != 1_700_000_000 {
		t.Errorf("expires %s", got)
	}
	for _, v := range []string{"opaque", "a.b.c", "a.!!.c", ""} {
		if got := (Token{Value: v}).expires(); !got.IsZero() {
			t.Errorf("%q expires %s", v, got)
		}
	}
}
