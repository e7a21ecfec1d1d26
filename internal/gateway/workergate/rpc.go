package workergate

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// rpc serves godwit.v1.Gateway. Each call passes through the gate as an HTTP request, so that the same rules hold.
type rpc struct {
	godwitpb.UnimplementedGatewayServer
	gate *Gate
	ways RPCWays
}

// RPCWays are the gRPC gateway's ways with calls, which it has for other services too.
type RPCWays struct {
	Peer func(context.Context) session.Peer         // who calls
	Fail func(ctx context.Context, err error) error // the status of a failed call
}

// RPC returns the service for callers by gRPC. They share the gate's memory; their answers have no origin that needs protection.
func (g *Gate) RPC(ways RPCWays) godwitpb.GatewayServer {
	cfg := g.cfg
	cfg.Place = httphead.API
	return &rpc{gate: &Gate{cfg: cfg, shares: g.shares}, ways: ways}
}

// Call implements godwitpb.GatewayServer.
func (s *rpc) Call(ctx context.Context, req *godwitpb.CallRequest) (*godwitpb.CallResponse, error) {
	r, err := httpRequest(ctx, req)
	if err == nil {
		err = access.CheckService(req.GetService())
	}
	if err != nil {
		return nil, s.ways.Fail(ctx, err)
	}
	from := s.ways.Peer(ctx)
	r.RemoteAddr = netip.AddrPortFrom(from.Addr, 0).String()
	claim := from.Claim
	claim.App, claim.Origin = req.GetApp(), r.Header.Get("Origin")
	w := &kept{header: make(http.Header)}
	if err = s.gate.traced(w, r, req.GetService(), r.URL.EscapedPath(), claim); err != nil {
		s.gate.logInternal(ctx, err)
		return nil, s.ways.Fail(ctx, err)
	}
	return w.response(r.Method == http.MethodHead), nil
}

// httpRequest makes the HTTP request of a call. Over HTTP, net/http refuses what cannot be one.
func httpRequest(ctx context.Context, req *godwitpb.CallRequest) (*http.Request, error) {
	r := &http.Request{Method: req.GetMethod(), Header: make(http.Header, len(req.GetHeaders())+3), ContentLength: int64(len(req.GetData()))}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(r.Method) { // both are tokens
		return nil, notification.BadField("method", "%q is not an HTTP method", notification.Clip(r.Method))
	}
	path := req.GetPath()
	if path == "" {
		path = "/"
	}
	for _, f := range []struct{ name, text string }{{"path", path}, {"query", req.GetQuery()}} {
		if strings.ContainsFunc(f.text, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }) {
			return nil, notification.BadField(f.name, "has a character that is not escaped as in a URL")
		}
	}
	var err error
	if r.URL, err = url.ParseRequestURI(path); err != nil || path[0] != '/' || r.URL.RawQuery != "" || r.URL.ForceQuery {
		return nil, notification.BadField("path", `must begin with "/", be escaped as in a URL and have no query`)
	}
	r.URL.RawQuery = req.GetQuery()
	for _, f := range req.GetHeaders() {
		if !httpguts.ValidHeaderFieldName(f.GetName()) || !httpguts.ValidHeaderFieldValue(f.GetValue()) {
			return nil, notification.BadField("headers", "%q is not a valid header", notification.Clip(f.GetName()))
		}
		r.Header.Add(f.GetName(), f.GetValue())
	}
	for name, key := range map[string]string{"Traceparent": "traceparent", "Tracestate": "tracestate"} {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 && r.Header[name] == nil {
			r.Header[name] = v
		}
	}
	r.Header.Del("Content-Type")
	if req.GetContentType() != "" {
		r.Header.Set("Content-Type", req.GetContentType())
	}
	r.Body = io.NopCloser(bytes.NewReader(req.GetData()))
	return r.WithContext(ctx), nil
}

// kept keeps an answer.
type kept struct {
	header http.Header
	status int
	body   []byte
}

// Header implements http.ResponseWriter.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *kept) Write(b []byte) (int, error) {
	k.body = append(k.body, b...)
	return len(b), nil
}

// response returns the kept answer. Its length is a header only after HEAD, where there is no body.
func (k *kept) response(bodiless bool) *godwitpb.CallResponse {
	out := &godwitpb.CallResponse{Status: int32(k.status), Data: k.body}
	if k.status != http.StatusNotModified { // net/http drops the type of what is not sent, too
		out.ContentType = k.header.Get("Content-Type")
	}
	delete(k.header, "Content-Type")
	if !bodiless {
		delete(k.header, "Content-Length")
	}
	for _, name := range slices.Sorted(maps.Keys(k.header)) {
		for _, v := range k.header[name] {
			out.Headers = append(out.Headers, &godwitpb.HeaderField{Name: name, Value: v})
		}
	}
	return out
}
