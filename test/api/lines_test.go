package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// put asks the server with a body as JSON.
func (s *moduleServer) put(method, path string, body any) string {
	s.t.Helper()
	answer, err := (&blackbox.API{Base: "http://" + s.addrs.HTTP, Key: "dev", HTTP: http.DefaultClient}).Do(s.t.Context(), method, path, body)
	if err != nil || answer.Status >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %v, %d %s", method, path, err, answer.Status, answer.Body)
	}
	return string(answer.Body)
}

// lineConn is a connection of lines.
type lineConn struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func onLines(t *testing.T, c net.Conn, err error) *lineConn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(blackbox.Patience))
	return &lineConn{t, c, bufio.NewReader(c)}
}

func (c *lineConn) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c *lineConn) hear() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func listenLines(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func acceptLines(t *testing.T, ln net.Listener) *lineConn {
	t.Helper()
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(blackbox.Patience))
	c, err := ln.Accept()
	return onLines(t, c, err)
}

// A module that is one folder brings a gateway, a channel and a kind of source. It is named here and in the list of modules of
// this test program alone.
func TestModuleBringsAGatewayAChannelAndASource(t *testing.T) {
	s := startModule(t, t.TempDir(), "--lines-addr", "127.0.0.1:0", "--allow-private-urls")

	c, err := net.Dial("tcp", s.addrs.Others["lines_addr"])
	client := onLines(t, c, err)
	client.say(`{"hello":{"app":"demo","recipient":"ann","token":"dev"}}`)
	if f := client.hear(); !strings.HasPrefix(f, `{"welcome":`) {
		t.Fatalf("the session begins with %s", f)
	}

	from := listenLines(t)
	s.put(http.MethodPut, "/v1/sources/lines", map[string]any{"server": from.Addr().String()})
	feed := acceptLines(t, from)
	feed.say("ann n1 Ride")
	if fate := feed.hear(); fate != "stored" {
		t.Errorf("the source's line is %s", fate)
	}
	var got struct {
		Notification struct{ ID, Title string }
	}
	if f := client.hear(); json.Unmarshal([]byte(f), &got) != nil || got.Notification.ID != "n1" || got.Notification.Title != "Ride" {
		t.Errorf("over the gateway came %s", f)
	}
	client.say(`{"ack":{"ids":["n1"]}}`)
	blackbox.Eventually(t, "the acknowledgement is stored", func() error {
		if _, state := s.request(http.MethodGet, "/v1/notifications/n1?to=ann", "dev"); !strings.Contains(state, `"status":"acked"`) {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	feed.say("nonsense")
	if fate := feed.hear(); fate != "quarantined" {
		t.Errorf("a line that is no notification is %s", fate)
	}
	if _, list := s.request(http.MethodGet, "/v1/sources", "dev"); !strings.Contains(list, `"source":"lines"`) || !strings.Contains(list, `"stored":1`) {
		t.Errorf("the sources are %s", list)
	}

	to := listenLines(t)
	s.put(http.MethodPut, "/v1/channels/lines", map[string]any{"greeting": "Hello!"})
	at := map[string]any{"at": to.Addr().String()}
	s.put(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "lines", "recipient": "bob", "address": at})
	campaign := map[string]any{"content": map[string]any{"title": "News"}, "audience": map[string]any{"channels": []string{"lines"}, "where": `channel = "lines"`}}
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(s.put(http.MethodPost, "/v1/campaigns", campaign)), &made); err != nil {
		t.Fatal(err)
	}
	s.put(http.MethodPost, "/v1/campaigns/"+made.ID+"/start", nil)
	message := acceptLines(t, to)
	if line := message.hear(); line != "Hello! News" {
		t.Errorf("the campaign says %q", line)
	}
	message.say("m1")
	blackbox.Eventually(t, "the campaign is done", func() error {
		if _, state := s.request(http.MethodGet, "/v1/campaigns/"+made.ID, "dev"); !strings.Contains(state, `"state":"completed"`) || !strings.Contains(state, `"lines":`) {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})

	s.put(http.MethodPost, "/v1/notifications", map[string]any{"to": "bob", "id": "n2", "title": "Alarm", "escalate": []map[string]any{{"channel": "lines"}}})
	message = acceptLines(t, to)
	if line := message.hear(); line != "Hello! Alarm" {
		t.Errorf("the escalation says %q", line)
	}
	message.say("m2")
	s.put(http.MethodPut, "/v1/recipients/bob/preferences", map[string]any{"categories": map[string]any{"*": map[string]any{"channels": []string{"lines"}}}})

	for name, want := range map[string]string{"source": "lines", "channel": "lines"} {
		out, err := program(t.Context(), "nothing", name, "list", "--data", s.data).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("godwit %s list: %v\n%s", name, err, out)
		}
	}
	for path, want := range map[string]string{"/ui/channels/lines": "greeting", "/ui/integrations": "lines"} {
		if page := s.page(path); !strings.Contains(page, want) {
			t.Errorf("the page %s lacks what the module brings:\n%s", path, page)
		}
	}
}
