package quicgate_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
)

// tlv is a frame of HTTP/3 or a capsule.
func tlv(kind uint64, payload string) string {
	b := quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload)))
	return string(b) + payload
}

const closeKind = 0x2843

func TestTheClientsCloseIsFoundAmongOtherCapsulesAndFrames(t *testing.T) {
	end := tlv(closeKind, "\x00\x00\x01\x02bye")
	for _, c := range []struct {
		name, in string
		code     uint32
		why      string
		fails    bool
	}{
		{"a close", tlv(0, end), 258, "bye", false},
		{"one without a reason", tlv(0, tlv(closeKind, "\x00\x00\x00\x07")), 7, "", false},
		{"the end of the stream", "", 0, "", false},
		{"the end behind a capsule", tlv(0, tlv(0x190b4d3d, "x")), 0, "", false},
		{"capsules before it", tlv(0, tlv(0x190b4d3d, "x")+tlv(0x78ae, strings.Repeat("y", 70000))+end), 258, "bye", false},
		{"frames without meaning", tlv(0x21, "grease") + tlv(1, "trailers") + tlv(0, "") + tlv(0, end), 258, "bye", false},
		{"a close in many frames", tlv(0, end[:1]) + tlv(0, end[1:4]) + tlv(0x21, "") + tlv(0, end[4:]), 258, "bye", false},
		{"a reason that is no text", tlv(0, tlv(closeKind, "\x00\x00\x00\x00\xff")), 0, "\uFFFD", false},
		{"a longest reason", tlv(0, tlv(closeKind, "\x00\x00\x00\x00"+strings.Repeat("r", 1024))), 0, strings.Repeat("r", 1024), false},
		{"a reason that is too long", tlv(0, tlv(closeKind, "\x00\x00\x00\x00"+strings.Repeat("r", 1025))), 0, "", true},
		{"half a code", tlv(0, tlv(closeKind, "\x00\x00")), 0, "", true},
		{"an end within a capsule", tlv(0, end[:6]), 0, "", true},
		{"an end within a frame", tlv(0, end)[:6], 0, "", true},
		{"an end within another frame", tlv(0x21, "grease")[:6], 0, "", true},
	} {
		for kind, in := range map[string]func() (uint32, string, error){
			"at once": func() (uint32, string, error) { return quicgate.ReadClose(strings.NewReader(c.in)) },
			"in bytes": func() (uint32, string, error) {
				return quicgate.ReadClose(iotest.OneByteReader(strings.NewReader(c.in)))
			},
			"with the end": func() (uint32, string, error) {
				return quicgate.ReadClose(iotest.DataErrReader(bytes.NewReader([]byte(c.in))))
			},
		} {
			if code, why, err := in(); code != c.code || why != c.why || (err != nil) != c.fails {
				t.Errorf("%s, %s: %d, %.20q, %v; want %d, %.20q", c.name, kind, code, why, err, c.code, c.why)
			}
		}
	}
}

// rude is a client that speaks HTTP/3 by hand, so that it can leave a session without ending its stream.
type rude struct {
	request *http3.RequestStream
	frames  *quic.Stream
}

func rudely(t *testing.T, s *gatetest.Server) *rude {
	t.Helper()
	d := doorOf(s)
	c, err := quic.DialAddr(t.Context(), d.addr, d.dialer().TLSClientConfig, &quic.Config{EnableDatagrams: true, KeepAlivePeriod: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseWithError(0, "") })
	var r rude
	if r.request, err = (&http3.Transport{EnableDatagrams: true}).NewClientConn(c).OpenRequestStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := &url.URL{Scheme: "https", Host: d.addr, Path: quicgate.Path}
	err = r.request.SendRequestHeader((&http.Request{Method: http.MethodConnect, Proto: "webtransport", Host: d.addr, URL: to, Header: http.Header{}}).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := r.request.ReadResponse(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	if r.frames, err = c.OpenStream(); err != nil {
		t.Fatal(err)
	}
	hello := `{"hello":{"app":"demo","recipient":"driver-1"}}`
	head := quicvarint.Append(quicvarint.Append(nil, 0x41), uint64(r.request.StreamID()))
	if _, err := r.frames.Write(slices.Concat(head, []byte{byte(len(hello))}, []byte(hello))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.frames.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return &r
}

// ends waits until the server resets the stream of the session, whose connection stays.
func (r *rude) ends(t *testing.T) {
	t.Helper()
	_ = r.frames.SetReadDeadline(time.Now().Add(gatetest.Patience))
	var reset *quic.StreamError
	for b := make([]byte, 1000); ; {
		if _, err := r.frames.Read(b); errors.As(err, &reset) {
			return
		} else if err != nil {
			t.Fatalf("the session has not ended: %v", err)
		}
	}
}

func TestASessionEndsWithItsClientsClose(t *testing.T) {
	s := start(t, quicgate.Config{})
	for i, c := range []struct {
		name string
		do   func(*rude) error
	}{
		{"a close and nothing else", func(r *rude) error {
			_, err := r.request.Write([]byte(tlv(closeKind, "\x00\x00\x00\x07done")))
			return err
		}},
		{"the end of the request's stream", func(r *rude) error { return r.request.Close() }},
		{"a capsule without meaning before", func(r *rude) error {
			_, err := r.request.Write([]byte(tlv(0x3f, "x")))
			return errors.Join(err, r.request.Close())
		}},
	} {
		r := rudely(t, s)
		if err := c.do(r); err != nil {
			t.Fatal(err)
		}
		r.ends(t)
		if n := doorOf(s).Ended("client"); n != float64(i+1) {
			t.Errorf("%s: clients have ended %v sessions", c.name, n)
		}
	}
	r := rudely(t, s)
	r.request.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
	r.ends(t)
	if n := doorOf(s).Ended("lost"); n != 1 {
		t.Errorf("%v sessions were lost", n)
	}
}
