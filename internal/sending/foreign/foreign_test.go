package foreign

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
)

const secret = "s3cret/key+of ours\"\n"

func TestExcerptsHoldNoSecret(t *testing.T) {
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), `s3cret/key+of ours\"\n`} {
		for _, text := range []string{form, "no: " + form + ", go", strings.Repeat("x", maxExcerpt-5) + form, strings.Repeat(form, 3), "it ends in " + form[:6]} {
			got := Excerpt(text, secret)
			for part := range strings.SplitSeq(got, cut) {
				if strings.Contains(part, form[:6]) {
					t.Errorf("%q became %q", text, got)
				}
			}
		}
	}
	if got := Excerpt("denied: the table is missing", secret, "", "the"); got != "denied: the table is missing" {
		t.Errorf("what is no secret became %q", got)
	}
}

func TestExcerptsAreOneShortLineOfPrintableText(t *testing.T) {
	for in, want := range map[string]string{
		"no: eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.x": "no: ….x",
		"a\r\nb\tc":                    "a b c",
		"\x1b[31mred\x1b[0m":           "[31mred [0m",
		"\x00\x7f":                     "",
		"a\u2028b\u202ec\u200bd\u0085": "a b c d",
		"\xff<b>":                      "?<b>",
	} {
		if got := Excerpt(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
	if got := Excerpt(strings.Repeat("ä ", 500)); len(got) > maxExcerpt+len(cut) || strings.Contains(got, "\uFFFD") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestCausesRepeatNothing: servers send secrets in answers that are not HTTP.
func TestCausesRepeatNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"status line":    "HTTP/1.1 %s\r\n\r\n",
		"version":        "HTTP/%s 200 OK\r\n\r\n",
		"no HTTP":        "%s\r\n\r\n",
		"header":         "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
		"length":         "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"encoding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"trailing bytes": "%s",
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = fmt.Fprintf(c, answer, "tell-nobody")
		}()
		c := urlguard.All.Client(urlguard.Options{})
		resp, err := c.Get("http://" + ln.Addr().String())
		if err == nil {
			resp.Body.Close()
		} else if got := Cause(err); got == "" || strings.Contains(got, "tell-nobody") {
			t.Errorf("%s: %q of %v", name, got, err)
		}
		c.CloseIdleConnections()
		ln.Close()
		<-done
	}
}

func TestCausesSayWhatHelps(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for at, want := range map[string]string{
		secure.URL: "its certificate is signed by an authority that is not known here",
		"https" + strings.TrimPrefix(plain.URL, "http"): "it does not speak TLS there",
		"http://" + gone.Addr().String():                "dial " + gone.Addr().String() + ": connection refused",
	} {
		c := urlguard.All.Client(urlguard.Options{})
		resp, err := c.Get(at)
		if err == nil {
			resp.Body.Close()
		}
		if got := Cause(err); got != want {
			t.Errorf("%s: %q, not %q: %v", at, got, want, err)
		}
		c.CloseIdleConnections()
	}
	strict := urlguard.Targets{}.Client(urlguard.Options{})
	if _, err := strict.Get(plain.URL); Cause(err) != "address is not public" {
		t.Errorf("%q of %v", Cause(err), err)
	}
}

// refusal is an error as a database returns it.
type refusal struct{ error }

func (refusal) SQLState() string { return "42501" }

func TestCausesSayWhatADatabaseRefused(t *testing.T) {
	err := refusal{errors.New("permission denied for table secret")}
	if got, want := Cause(fmt.Errorf("add a table: %w", err)), `the database refused it with the code 42501 (SQLSTATE)`; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
