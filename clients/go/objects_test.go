package godwit

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestVersionsAreStringsOnTheWire(t *testing.T) {
	for text, want := range map[string]Version{`"7"`: 7, `7`: 7, `"9223372036854775807"`: 1<<63 - 1, `"0"`: 0, `null`: 0} {
		var v Version
		if err := json.Unmarshal([]byte(text), &v); err != nil || v != want {
			t.Errorf("%s is %s, %v", text, v, err)
		}
	}
	for _, bad := range []string{`"-1"`, `"+1"`, `"01"`, `1.5`, `"9223372036854775808"`, `""`, `true`} {
		var v Version
		if json.Unmarshal([]byte(bad), &v) == nil {
			t.Errorf("%s was read as %s", bad, v)
		}
	}
	if b, err := json.Marshal(Version(1<<63 - 1)); err != nil || string(b) != `"9223372036854775807"` {
		t.Errorf("written as %s, %v", b, err)
	}
}

// called records requests and returns its answers one after the other.
type called struct {
	answers
	asked []string
}

func (c *called) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked = append(c.asked, r.Method+" "+r.URL.RequestURI())
	return c.answers.RoundTrip(r)
}

func objectClient(t *testing.T, status int, bodies ...string) (*Client, *called) {
	t.Helper()
	a := &called{}
	for _, b := range bodies {
		a.list = append(a.list, answer(status, "", b))
	}
	c, err := New("http://example.org", WithHTTPClient(&http.Client{Transport: a}), WithAPIKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

func TestPutsSayWhatIsMeant(t *testing.T) {
	c, a := objectClient(t, 200, `{"version":"7","changed":true}`)
	for _, p := range []ObjectPut{
		{Version: 7, Payload: []byte(`{"iso":400}`), Source: "client-3/device"}, {}, {Payload: []byte("text")}, {Payload: []byte{255}},
	} {
		if r, err := c.PutObject(t.Context(), "region-1", "camera-config", p); err != nil || r.Version != 7 || !r.Changed {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, err := c.UnknownObject(t.Context(), "region-1", "camera-config", 9); err != nil {
		t.Error(err)
	}
	if err := c.DeleteObject(t.Context(), "region-1", "camera-config"); err != nil {
		t.Error(err)
	}
	want := []string{
		`PUT {"version":"7","payload":{"iso":400},"source":"client-3/device"}`, `PUT {}`,
		`PUT {"payload":"text","content_type":"text/plain; charset=utf-8"}`,
		`PUT {"payload_base64":"/w==","content_type":"application/octet-stream"}`, `PUT {"version":"9","unknown":true}`, `DELETE `,
	}
	for i, w := range want {
		method, body, _ := strings.Cut(w, " ")
		if a.asked[i] != method+" /v1/objects/region-1/camera-config" || a.bodies[i] != body {
			t.Errorf("%s %s, want %s", a.asked[i], a.bodies[i], w)
		}
	}
	for _, bad := range [][2]string{{"", "a"}, {"g", ""}, {"g/h", "a"}, {"g", "a?b"}} {
		if _, err := c.PutObject(t.Context(), bad[0], bad[1], ObjectPut{}); err == nil || len(a.asked) != len(want) {
			t.Errorf("%q was sent", bad)
		}
	}
}

func TestObjectsAreListedPageByPage(t *testing.T) {
	c, a := objectClient(t, 200,
		`{"items":[{"object":"a","version":"1","unknown":false,"payload":{"x":1},"source":"r","updated_at":"2026-01-02T03:04:05.000Z"}],"next_cursor":"a"}`,
		`{"items":[{"group":"g","object":"b","version":"3","unknown":true}]}`)
	var got []string
	for o, err := range c.ListObjects(t.Context(), "g", "p") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Group+"/"+o.Object+" "+o.Version.String()+" "+string(o.Payload))
	}
	if strings.Join(got, "; ") != `g/a 1 {"x":1}; g/b 3 ` {
		t.Errorf("listed %q", got)
	}
	if strings.Join(a.asked, "; ") != "GET /v1/objects/g?limit=500&prefix=p; GET /v1/objects/g?cursor=a&limit=500&prefix=p" {
		t.Errorf("asked %q", a.asked)
	}
}

func TestRegistrationsAreRead(t *testing.T) {
	c, a := objectClient(t, 200, `[{"recipient":"r","device":"d","online":true,"last_seen":"2026-01-02T03:04:05.000Z","sent_version":"7","acked_version":"6"},{"recipient":"s","sent_version":null}]`)
	list, err := c.Registrations(t.Context(), "g", "a")
	if err != nil || len(list) != 2 || list[0].SentVersion != 7 || list[0].AckedVersion != 6 || !list[0].Online || list[1].SentVersion != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if a.asked[0] != "GET /v1/objects/g/a/registrations" {
		t.Errorf("asked %q", a.asked)
	}
}

func TestObjectThatNobodyPutIsNotFound(t *testing.T) {
	c, _ := objectClient(t, 404, `{"title":"Not found","detail":"nobody has put g/a"}`)
	_, err := c.GetObject(t.Context(), "g", "a")
	var e *Error
	if !errors.As(err, &e) || e.Status != 404 || !strings.Contains(err.Error(), "read object g/a") {
		t.Error(err)
	}
	for _, err := range c.ListObjects(t.Context(), "g", "") {
		if err == nil {
			t.Error("the error of a list is lost")
		}
	}
}
