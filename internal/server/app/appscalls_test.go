package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// answered is a call's status and body.
type answered struct {
	status int
	body   string
}

func (m *meeting) do(method, path, key, body string, header map[string]string) answered {
	m.Helper()
	return m.until(method, path, key, body, header, "")
}

// until reads an answer to its end or, if there is none, to a line that contains a text.
func (m *meeting) until(method, path, key, body string, header map[string]string, text string) answered {
	m.Helper()
	ctx, cancel := context.WithTimeoutCause(m.Context(), time.Minute, fmt.Errorf("%s %s has no end", method, path))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.url+path, strings.NewReader(body))
	if err != nil {
		m.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, v := range header {
		req.Header.Set(name, v)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		m.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		switch {
		case text != "" && strings.Contains(line, text) || err == io.EOF:
			return answered{resp.StatusCode, b.String()}
		case err != nil:
			m.Fatalf("%s %s: %v", method, path, context.Cause(ctx))
		}
	}
}

// idempotent returns the idempotency key of the nth call of a path, the same in both apps.
func idempotent(path string, n int) string { return fmt.Sprintf("same %s %d", path, n) }

// fence publishes a notification to ann; in a stream it marks the end of all earlier events.
func (m *meeting) fence(x *tenant) string {
	m.Helper()
	m.fences++
	id := fmt.Sprint("fence-", m.fences)
	if a := m.do("POST", "/v1/notifications", x.key, `{"to":"ann","id":"`+id+`","title":"`+x.mark+`"}`, nil); a.status != http.StatusCreated {
		m.Fatal(a.body)
	}
	return id
}

var dollar = regexp.MustCompile(`\$[a-z0-9-]+`)

// fill replaces placeholders with an app's ids of its things.
func fill(text string, x *tenant) string {
	return dollar.ReplaceAllStringFunc(text, func(name string) string { return x.ids[name[1:]] })
}

// path returns an operation's path from meetings, with an app's ids of its things, and a query.
func (h how) path(op operation, x *tenant, query string) string {
	path := op.path
	for name, v := range h.params {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(fill(v, x)))
	}
	if all := strings.Trim(fill(h.query, x)+"&"+query, "&"); all != "" {
		path += "?" + all
	}
	return path
}

// attack calls an operation with red's credential and blue's things: plainly, with blue as the app in the request, with a cursor of blue's,
// and with an idempotency key that blue has used.
func (m *meeting) attack(op operation, h how, as string) {
	m.Helper()
	call := func(query string, header map[string]string) answered {
		m.Helper()
		path := h.path(op, m.blue, query)
		if strings.Contains(path, "{") {
			m.Fatalf("meetings does not fill in all of %s", op.path)
		}
		if h.socket {
			return m.socket(path, as)
		}
		text := ""
		if h.endless {
			text = m.fence(m.red)
		}
		body := fill(h.body, m.blue)
		a := m.until(op.method, path, as, body, header, text)
		m.nothing(op.method+" "+path, path+body, a)
		return a
	}
	a := call("", nil)
	if used := dollar.MatchString(h.query + h.body + fmt.Sprint(h.params)); used && !h.passes && (a.status < 400 || a.status >= 500) {
		m.Errorf("%s with what is blue's answers %d: %s", op.name, a.status, a.body)
	}
	if op.query["app"] {
		if a := call("app="+m.blue.app, nil); !h.public && (a.status < 400 || a.status >= 500) {
			m.Errorf("%s: red asks in the name of blue and is answered %d: %s", op.name, a.status, a.body)
		}
	}
	if op.query["cursor"] && !h.noCursor {
		var page struct {
			Next *string `json:"next_cursor"`
		}
		theirs := m.do(op.method, h.path(op, m.blue, "limit=1"), m.blue.key, "", nil)
		if err := json.Unmarshal([]byte(theirs.body), &page); err != nil || page.Next == nil {
			m.Errorf("%s: blue's list has no second page: %s", op.name, theirs.body)
			return
		}
		call("cursor="+url.QueryEscape(*page.Next), nil)
	}
	if op.query["Idempotency-Key"] {
		for n := range 6 {
			call("", map[string]string{"Idempotency-Key": idempotent(op.path, n)})
		}
	}
}

// nothing checks that an answer contains nothing of blue's, except what the request contained.
func (m *meeting) nothing(call, sent string, a answered) {
	m.Helper()
	nobody := strings.Contains(a.body, "/problems/nobody-serves") || strings.Contains(a.body, "/problems/not-connected")
	if a.status >= 500 && a.status != http.StatusNotImplemented && !nobody {
		m.Errorf("%s: %d %s", call, a.status, a.body)
	}
	if strings.Contains(a.body, m.blue.mark) {
		m.Errorf("%s shows red what is blue's: %s", call, a.body)
	}
	for name, id := range m.blue.ids {
		if name != "others" && strings.Contains(a.body, id) && !strings.Contains(sent, id) {
			m.Errorf("%s tells red blue's %s: %s", call, name, a.body)
		}
	}
}

// socket sends a hello on a WebSocket and reads until the server closes or sends a welcome.
func (m *meeting) socket(path, token string) (a answered) {
	m.Helper()
	ws, resp, err := websocket.Dial(m.Context(), "ws"+strings.TrimPrefix(m.url, "http")+path, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		return answered{status: resp.StatusCode}
	}
	defer ws.CloseNow()
	a.status = http.StatusForbidden
	if err := ws.Write(m.Context(), websocket.MessageText, []byte(`{"hello":{"app":"`+m.blue.app+`"}}`)); err != nil {
		return a
	}
	for {
		_, b, err := ws.Read(m.Context())
		if err != nil {
			return a
		}
		if a.body += string(b); strings.Contains(a.body, `"welcome"`) {
			m.Errorf("red is welcome in blue: %s", b)
			return a
		}
	}
}

// volatile matches values that change by themselves: a session is read again a moment later, and a hook's progress follows the whole log.
var volatile = regexp.MustCompile(`"(last_seen|behind|newest_event_id|last_used_at|idle_s|connected_at|age_s)":("[^"]*"|[0-9.]+|null|true|false)`)

// dump reads all that an app can read, by operation.
func (m *meeting) dump(x *tenant) map[string]string {
	m.Helper()
	// This poll keeps Carl's session, which would end after a minute without one; a busy machine takes longer for the whole document.
	m.do(http.MethodGet, "/v1/poll?wait=0s&session="+x.ids["session"], x.session, "", nil)
	all := map[string]string{}
	for name, h := range meetings {
		method, path, _ := strings.Cut(name, " ")
		if method != http.MethodGet || !h.shows && !h.dumped {
			continue
		}
		text := ""
		if h.endless {
			text = x.last
		}
		full := h.path(operation{path: path}, x, "")
		a := m.until(method, full, x.key, "", nil, text)
		if a.status != http.StatusOK || h.shows && !strings.Contains(a.body, x.mark) {
			m.Errorf("%s shows %s %d %s; it was to show %q", full, x.app, a.status, a.body, x.mark)
		}
		all[name] = volatile.ReplaceAllString(a.body, "$1")
	}
	return all
}

// unchanged compares blue's data before and after an operation.
func (m *meeting) unchanged(op string, before, after map[string]string) {
	m.Helper()
	for name, was := range before {
		is := after[name]
		if is == was {
			continue
		}
		at := 0
		for at < min(len(is), len(was)) && is[at] == was[at] {
			at++
		}
		from := max(0, at-100)
		m.Errorf("after red's %s blue's %s was\n…%.300s\nand is\n…%.300s", op, name, was[min(from, len(was)):], is[min(from, len(is)):])
	}
}

// events checks that an app's only new event since its last notification is another notification.
func (m *meeting) events(x *tenant) {
	m.Helper()
	path, before := "/v1/events?since=0", x.last
	first := m.until(http.MethodGet, path, x.key, "", nil, before)
	x.last = m.fence(x)
	all := m.until(http.MethodGet, path, x.key, "", nil, x.last)
	if rest, ok := strings.CutPrefix(all.body, first.body); !ok || strings.Count(rest, "data: ") > 1 {
		m.Errorf("events of %s after its last notification:\n%s", x.app, rest)
	}
}
