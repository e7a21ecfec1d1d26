package quicgate

import (
	"net/http"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/server/problem"
)

// ServeHTTP opens a session. It answers a bad request with a problem document; the client's identity is verified after its hello.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, _ := r.Context().Value(guestKey{}).(*guest)
	proto, err := g.check(w, r, who)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	late := time.NewTimer(g.cfg.patience)
	defer late.Stop()
	select {
	case <-who.line.settled:
	case <-late.C:
		gateway.Fail(w, problem.BadInput.With("the client's SETTINGS of HTTP/3 have not come"))
		return
	case <-r.Context().Done():
		return
	}
	streamer, _ := w.(http3.HTTPStreamer)
	c := &conn{
		gate: g, line: who.line, peer: gateway.Peer(r), text: proto != ProtocolProto, wake: make(chan struct{}, 1),
		datagrams: r.URL.Query().Get("datagrams") == "1" && who.line.datagrams,
	}
	if !who.line.reserve(c) {
		gateway.Fail(w, problem.WrongState.With("this connection has a session already: open another connection"))
		return
	}
	w.WriteHeader(http.StatusOK)
	c.opened(streamer.HTTPStream().QUICStream())
}

// check refuses requests that cannot become a session.
func (g *Gateway) check(w http.ResponseWriter, r *http.Request, who *guest) (proto string, err error) {
	q := r.URL.Query()
	proto = q.Get("protocol")
	origin := r.Header.Get("Origin")
	switch _, h3 := w.(http3.HTTPStreamer); {
	case !h3 || who == nil || r.Method != http.MethodConnect || r.Proto != "webtransport" && r.Proto != "webtransport-h3":
		return "", notHere()
	case proto != "" && proto != ProtocolJSON && proto != ProtocolProto:
		return "", problem.Subprotocol.With("protocol is " + ProtocolJSON + " or " + ProtocolProto)
	case origin != "" && !g.cfg.Origins.Origin(q.Get("app"), origin, r.Host):
		return "", gateway.BadOrigin()
	}
	if v := q.Get("datagrams"); v != "" && v != "0" && v != "1" {
		return "", problem.BadInput.With("datagrams is 0 or 1").In("datagrams")
	}
	claim := gateway.Peer(r).Claim
	return proto, gateway.Check(&frame.Hello{App: claim.App, Token: claim.Token, Recipient: claim.Recipient, Group: claim.Group, Device: claim.Device})
}

// Close codes and reasons beyond those of WebSocket.
const (
	codeNormal        = 1000
	codeProtocol      = 1002
	codeTooBig        = 1009
	codeSlow          = 1013
	codeSecondStream  = 4101
	codeDatagram      = 4102
	codeStreamMissing = 4103
	cutFrame          = "cut_frame"
	tooLarge          = "message_too_large"
	slow              = "slow"
	secondStream      = "second_stream"
	datagramRefused   = "datagram_refused"
	streamMissing     = "stream_missing"
)

// opened begins the session on the stream of its request, and waits for the client's stream with the frames.
func (c *conn) opened(wt *quic.Stream) {
	c.line.ready(c, wt, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = time.AfterFunc(c.gate.cfg.patience, func() { c.refuse(codeStreamMissing, streamMissing) })
	})
	c.line.running.Go(c.watch)
}
