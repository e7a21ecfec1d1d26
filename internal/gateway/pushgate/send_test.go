package pushgate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/pushgate"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestMessageReachesItsDevice(t *testing.T) {
	w := start(t)
	d := w.device(t)
	channel, endpoint := d.register("")
	r := w.message(t, endpoint, "sealed \x00\xff", sealed("200"))
	if r.header.Get("TTL") != "200" || r.header.Get("Access-Control-Allow-Origin") != "*" || r.body != "" {
		t.Errorf("answer %v %q", r.header, r.body)
	}
	a := d.want("sealed \x00\xff")
	if a.ChannelID != channel || len(a.Headers) != 1 || a.Headers["encoding"] != "aes128gcm" {
		t.Errorf("%+v", a)
	}
	d.ack(a)
	w.message(t, endpoint, "old", map[string]string{"TTL": "200", "Content-Encoding": "aesgcm", "Encryption": `salt="YWJj="`, "Crypto-Key": `dh="ZGVm"`})
	a = d.want("old")
	if want := map[string]string{"encoding": "aesgcm", "encryption": "salt=YWJj", "crypto_key": "dh=ZGVm"}; fmt.Sprint(a.Headers) != fmt.Sprint(want) {
		t.Errorf("headers %v, want %v", a.Headers, want)
	}
	d.ack(a)
	w.message(t, endpoint, "", sealed("200"))
	if a = d.want(""); a.Data != nil || a.Headers != nil {
		t.Errorf("a message without a body has data or headers: %+v", a)
	}
}

func TestMessageWaitsUntilItIsAcknowledged(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	w.message(t, endpoint, "direct", sealed("200"))
	d.want("direct")
	d.disconnect()
	w.message(t, endpoint, "away", sealed("200"))
	d.connect()
	first, second := d.want("direct"), d.want("away")
	d.ack(second)
	d.disconnect()
	d.connect()
	if again := d.want("direct"); again.Version != first.Version {
		t.Errorf("the message came with version %s, then %s", first.Version, again.Version)
	}
	d.ack(first)
	d.disconnect()
	d.connect()
	w.message(t, endpoint, "new", sealed("200"))
	d.want("new")
}

func TestAcknowledgementsEndAMessageWhateverTheirCode(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	for _, code := range []int{0, 100, 101, 102, 7} {
		w.message(t, endpoint, "x", sealed("200"))
		a := d.want("x")
		d.send(map[string]any{"messageType": "ack", "updates": []any{map[string]any{"channelID": a.ChannelID, "version": a.Version, "code": code}, map[string]any{"version": "never-sent"}}})
		d.ping()
	}
	d.disconnect()
	d.connect()
	w.message(t, endpoint, "last", sealed("200"))
	d.want("last")
}

func TestRefusedMessageComesOnTheNextConnection(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	w.message(t, endpoint, "x", sealed("200"))
	a := d.want("x")
	d.send(map[string]any{"messageType": "nack", "version": a.Version, "code": 302})
	d.send(map[string]any{"messageType": "nack", "code": 302})
	if text := d.ping(); text != "{}" {
		t.Fatalf("after a nack came %s", text)
	}
	d.disconnect()
	d.connect()
	d.want("x")
}

func TestLaterMessageOfATopicReplacesTheEarlierOne(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	_, other := d.register("")
	d.disconnect()
	w.message(t, endpoint, "1", sealed("200", "Topic", "Inbox"))
	w.message(t, other, "of another channel", sealed("200", "Topic", "Inbox"))
	w.message(t, endpoint, "2", sealed("200", "Topic", "Inbox"))
	w.message(t, endpoint, "of another topic", sealed("200", "Topic", "Outbox"))
	d.connect()
	d.ack(d.want("of another channel"), d.want("2"), d.want("of another topic"))
	w.message(t, endpoint, "end", sealed("200"))
	d.want("end")
}

func TestUrgentMessagesComeFirst(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	d.disconnect()
	for _, urgency := range []string{"very-low", "low", "normal", "high"} {
		w.message(t, endpoint, urgency, sealed("200", "Urgency", urgency))
	}
	d.connect()
	for _, want := range []string{"high", "normal", "very-low", "low"} {
		d.want(want)
	}
}

func TestExpiredMessageIsNotDelivered(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	d.disconnect()
	location := w.message(t, endpoint, "short", sealed("1")).header.Get("Location")
	id := location[strings.LastIndex(location, "/")+1:]
	w.message(t, endpoint, "long", sealed("200"))
	for { // the store's clock decides
		rs, err := w.Mailbox.Lookup(t.Context(), pushgate.App, id, "")
		if err != nil {
			t.Fatal(err)
		}
		if rs[0].Status == notification.Expired {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.connect()
	d.want("long")
}

func TestMessageWithTTLZeroIsForTheConnectedAlone(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	r := w.message(t, endpoint, "now", sealed("0"))
	if r.header.Get("TTL") != "0" {
		t.Errorf("TTL %s, want 0", r.header.Get("TTL"))
	}
	a := d.want("now")
	d.disconnect() // unacknowledged
	w.message(t, endpoint, "dropped", sealed("0"))
	d.connect()
	w.message(t, endpoint, "next", sealed("200"))
	if b := d.want("next"); a.Version == b.Version {
		t.Error("two messages have one version")
	}
}

func TestMessageThatWaitsCanBeDeleted(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	d.disconnect()
	location := w.message(t, endpoint, "unwanted", sealed("200")).header.Get("Location")
	if !strings.HasPrefix(location, w.URL+"/m/") {
		t.Fatalf("location %s", location)
	}
	for range 2 {
		if r := w.send(t, location, post{method: http.MethodDelete}); r.status != 204 {
			t.Errorf("DELETE answers %d %s, want 204", r.status, r.body)
		}
	}
	for _, id := range []string{"x", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA%20"} {
		if r := w.send(t, w.URL+"/m/"+id, post{method: http.MethodDelete}); r.status != 404 || r.errno != 102 {
			t.Errorf("DELETE of %s answers %d, errno %d", id, r.status, r.errno)
		}
	}
	if r := w.send(t, location, post{method: http.MethodGet}); r.status != 405 || r.header.Get("Allow") != "DELETE, OPTIONS" {
		t.Errorf("GET of a message answers %d, %v", r.status, r.header)
	}
	d.connect()
	w.message(t, endpoint, "wanted", sealed("200"))
	d.want("wanted")
}

func TestSizesAreLimited(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	most := strings.Repeat("m", 5630)
	for _, chunked := range []bool{false, true} {
		if r := w.send(t, endpoint, post{body: most + "x", header: sealed("60"), chunked: chunked}); r.status != 413 || r.errno != 104 {
			t.Errorf("one byte too many, chunked %t: %d, errno %d", chunked, r.status, r.errno)
		}
		if r := w.send(t, endpoint, post{body: most, header: sealed("60"), chunked: chunked}); r.status != 201 {
			t.Errorf("as many as allowed, chunked %t: %d %s", chunked, r.status, r.body)
		}
		d.ack(d.want(most))
	}
}

func TestUnifiedPushSendsRawMessages(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	r := w.send(t, endpoint, post{method: http.MethodGet})
	var found struct{ UnifiedPush struct{ Version int } }
	if err := json.Unmarshal([]byte(r.body), &found); err != nil || r.status != 200 || found.UnifiedPush.Version != 1 || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("GET answers %d %s (%v)", r.status, r.body, err)
	}
	for _, body := range []string{"x", `{"notification":{}}`, strings.Repeat("m", 4096)} {
		w.message(t, endpoint, body, nil)
		if a := d.want(body); a.Headers != nil {
			t.Errorf("a raw message has headers %v", a.Headers)
		}
	}
	if r := w.send(t, endpoint, post{body: strings.Repeat("m", 4097)}); r.status != 413 || r.errno != 104 {
		t.Errorf("4,097 bytes: %d, errno %d", r.status, r.errno)
	}
	if r := w.send(t, endpoint, post{}); r.status != 400 || r.errno != 111 {
		t.Errorf("no bytes: %d, errno %d", r.status, r.errno)
	}
}

func TestPagesOfEveryOriginMaySend(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/wpush/v1/x", "/m/x"} {
		r := w.send(t, w.URL+path, post{method: http.MethodOptions, header: map[string]string{"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}})
		allowed := r.header.Get("Access-Control-Allow-Headers")
		if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(allowed, "TTL") || !strings.Contains(allowed, "Crypto-Key") {
			t.Errorf("%s answers %d, %v", path, r.status, r.header)
		}
	}
}

func TestEndpointsThatNeverWereAreNotFound(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	_, bound := d.register(newKey(t).public)
	token := endpoint[strings.LastIndex(endpoint, "/")+1:]
	for url, want := range map[string][2]int{
		w.URL + "/wpush/v1/short":                              {404, 102},
		w.URL + "/wpush/v3/" + token:                           {404, 102},
		w.URL + "/wpush/v2/" + token:                           {404, 102},
		strings.Replace(bound, "/v2/", "/v1/", 1):              {404, 102},
		w.URL + "/wpush/v1/" + strings.Repeat("A", 32):         {410, 106},
		w.URL + "/wpush/v1/" + strings.Repeat("A", 31) + "%2F": {404, 102},
	} {
		r := w.send(t, url, post{header: sealed("60")})
		if r.status != want[0] || r.errno != want[1] {
			t.Errorf("%s: %d, errno %d; want %v", url, r.status, r.errno, want)
		}
		var doc map[string]any
		if err := json.Unmarshal([]byte(r.body), &doc); err != nil || doc["code"] != float64(want[0]) || doc["error"] == "" || doc["message"] == "" || doc["more_info"] == "" {
			t.Errorf("%s: %s, %v", url, r.body, err)
		}
	}
	if r := w.send(t, endpoint, post{method: http.MethodPut}); r.status != 405 {
		t.Errorf("PUT answers %d, want 405", r.status)
	}
}

// failing refuses every message.
type failing struct{ whole, copied error }

func (f failing) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	return []delivery.Result{{ID: drafts[0].ID, Err: f.whole, Copies: []delivery.Copy{{Err: f.copied}}}}
}

func TestMessageThatIsNotStoredIsToBeSentAgain(t *testing.T) {
	for _, c := range []struct {
		err    failing
		status int
	}{{failing{whole: mailbox.ErrNoSpace}, 503}, {failing{whole: context.DeadlineExceeded}, 503}, {failing{copied: mailbox.ErrFull}, 429}} {
		w := start(t, func(cfg *pushgate.Config) { cfg.Publisher = c.err })
		_, endpoint := w.device(t).register("")
		if r := w.send(t, endpoint, post{header: sealed("60")}); r.status != c.status || r.errno != 201 || r.header.Get("Retry-After") == "" {
			t.Errorf("%v: %d, errno %d, %v; want %d with Retry-After", c.err, r.status, r.errno, r.header, c.status)
		}
	}
}
