package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestNothingIsServedBehindARequestOfDoubtfulLength(t *testing.T) {
	a := start(t, settings(t))
	const host = "Host: 127.0.0.1\r\nAuthorization: Bearer dev\r\n"
	const body = `{"to":"anna","title":"x"}`
	publish := "POST /v1/notifications HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
	for name, head := range map[string]string{
		"a length and chunks":     "POST /v1/notifications HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks":                  "POST /v1/notifications HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a length twice":          "POST /v1/notifications HTTP/1.1\r\n" + host + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
		"a folded line":           "GET /healthz HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n",
		"chunks of an old client": "POST /v1/notifications HTTP/1.0\r\nConnection: keep-alive\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n",
		"a space before a colon":  "POST /v1/notifications HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n",
		"another coding":          "POST /v1/notifications HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n",
		"through the gateway":     "POST /gw/shop/ HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		for where, before := range map[string]string{"at first": "", "after publishes": publish} {
			c, err := net.Dial("tcp", a.Addresses().HTTP)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			in := bufio.NewReader(c)
			if before != "" {
				if _, err := io.WriteString(c, before); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != http.StatusCreated {
					t.Fatalf("publish: %v, %v", resp, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if _, err := io.WriteString(c, head+"GET /v1/keys HTTP/1.1\r\n"+host+"\r\n"); err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(in) // returns before the deadline only if the server closes
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s %s: the connection is not closed: %v", name, where, err)
			}
			if strings.Contains(string(out), `"items"`) {
				t.Errorf("%s %s: what follows is served:\n%s", name, where, out)
			}
			_ = c.Close()
		}
	}
}
