package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// refusing refuses requests before it has read their bodies, and echoes others.
func refusing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/echo" {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, err)
		return
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "too much", http.StatusRequestEntityTooLarge)
}

func dial(t *testing.T, srv *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAClientThatSendsAllBeforeItReadsGetsItsRefusal(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(lingering(http.HandlerFunc(refusing), time.Minute))
	t.Cleanup(srv.Close)
	const size = 30 << 20 // more than the buffers of both sides hold
	piece := strings.Repeat("x", 1<<20)
	for name, send := range map[string]func(w io.Writer) error{
		"a body of known length": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "POST /files HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)
			for range size / len(piece) {
				if err == nil {
					_, err = io.WriteString(w, piece)
				}
			}
			return err
		},
		"chunks": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "POST /files HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range size / len(piece) {
				if err == nil {
					_, err = fmt.Fprintf(w, "%x\r\n%s\r\n", len(piece), piece)
				}
			}
			if err == nil {
				_, err = io.WriteString(w, "0\r\n\r\n")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, srv)
			if err := send(c); err != nil {
				t.Fatalf("the server did not read on: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "too much") {
				t.Errorf("%s %q %v", resp.Status, text, err)
			}
		})
	}
}

func TestABodyThatDoesNotEndIsNotWaitedForLonger(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(lingering(http.HandlerFunc(refusing), time.Millisecond))
	t.Cleanup(srv.Close)
	c := dial(t, srv)
	if _, err := fmt.Fprint(c, "POST /files HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\nbegin"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c) // until the server has closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
		t.Errorf("%q %v", answer, err)
	}
}

func TestAConnectionWhoseBodyWasReadGoesOn(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(lingering(http.HandlerFunc(refusing), time.Minute))
	t.Cleanup(srv.Close)
	c := dial(t, srv)
	answers := bufio.NewReader(c)
	for range 2 {
		const size = 1 << 20
		if _, err := fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != fmt.Sprint(size, error(nil)) || resp.ContentLength < 0 {
			t.Errorf("%q %v, length %d", text, err, resp.ContentLength)
		}
		resp.Body.Close()
	}
}
