package grpcgate

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/reactor/http2"
	"godwit.dev/godwit/internal/notify/session"
)

// Limits of an error's size in trailers, in bytes: clients refuse long header lists.
const (
	maxStatusMessage = 2 << 10
	maxStatusDetails = 4 << 10
)

// reserved reports whether a header field belongs to the protocol, not to the application.
func reserved(name string) bool {
	switch name {
	case "te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "grpc-message-type",
		"grpc-status", "grpc-message", "grpc-status-details-bin":
		return true
	}
	return strings.HasPrefix(name, ":")
}

// incoming makes the call's metadata. It decodes binary values and drops those that it cannot decode.
func incoming(h *http2.Headers) metadata.MD {
	md := make(metadata.MD, len(h.Fields)+1)
	if h.Authority != "" {
		md[":authority"] = []string{h.Authority}
	}
	for _, f := range h.Fields {
		if reserved(f.Name) {
			continue
		}
		v := f.Value
		if strings.HasSuffix(f.Name, "-bin") {
			b, err := decodeBinary(v)
			if err != nil {
				continue
			}
			v = b
		}
		md[f.Name] = append(md[f.Name], v)
	}
	return md
}

// decodeBinary accepts base64 with and without padding, as the protocol demands.
func decodeBinary(v string) (string, error) {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
	return string(b), err
}

// appendMetadata adds application metadata to a header list. It omits fields that are not allowed in headers.
func appendMetadata(fields []hpack.HeaderField, md metadata.MD) []hpack.HeaderField {
	for name, values := range md {
		name = strings.ToLower(name)
		if reserved(name) || !validName(name) {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, "-bin") {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			} else if !printable(v) {
				continue
			}
			fields = append(fields, hpack.HeaderField{Name: name, Value: v})
		}
	}
	return fields
}

func validName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != ""
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Header fields of every answer.
var (
	fieldOK          = hpack.HeaderField{Name: ":status", Value: "200"}
	fieldContentType = hpack.HeaderField{Name: "content-type", Value: "application/grpc"}
)

// statusFields appends the trailers that carry a call's status.
func statusFields(fields []hpack.HeaderField, st *status.Status) []hpack.HeaderField {
	fields = append(fields, hpack.HeaderField{Name: "grpc-status", Value: strconv.Itoa(int(st.Code()))})
	if m := st.Message(); m != "" {
		m = strings.ToValidUTF8(m[:min(len(m), maxStatusMessage)], "")
		fields = append(fields, hpack.HeaderField{Name: "grpc-message", Value: percentEncode(m)})
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if b, err := proto.Marshal(p); err == nil && len(b) <= maxStatusDetails {
			fields = append(fields, hpack.HeaderField{Name: "grpc-status-details-bin", Value: base64.RawStdEncoding.EncodeToString(b)})
		}
	}
	return fields
}

// reply ends a stream that has no answer yet with only a status.
func reply(s *http2.Stream, st *status.Status, extra ...hpack.HeaderField) {
	s.WriteTrailers(statusFields(append([]hpack.HeaderField{fieldOK, fieldContentType}, extra...), st)...)
}

// remote gives access to the connection's data about its peer.
type remote interface {
	RemoteAddr() netip.AddrPort
	TLS() *tls.ConnectionState
}

// peerOf describes the client for handlers.
func peerOf(s *http2.Stream) *peer.Peer {
	p := &peer.Peer{Addr: &net.TCPAddr{}}
	if r, ok := s.Conn().Transport().(remote); ok {
		p.Addr = net.TCPAddrFromAddrPort(r.RemoteAddr())
		if st := r.TLS(); st != nil {
			p.AuthInfo = credentials.TLSInfo{
				State: *st, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
			}
		}
	}
	return p
}

// streamPeer does the same as sessionPeer for a stream of our own engine, without allocations for each session.
func streamPeer(s *http2.Stream, md func(string) string) session.Peer {
	sp := session.Peer{Claim: access.Claim{Token: tokenIn(md)}}
	if r, ok := s.Conn().Transport().(remote); ok {
		sp.Addr = r.RemoteAddr().Addr()
		sp.Claim.CertURI = access.CertURI(r.TLS())
	}
	return sp
}

// tokenIn returns the client's token from its metadata.
func tokenIn(md func(string) string) string {
	if t := bearer(md("authorization")); t != "" {
		return t
	}
	return md("token")
}

// sessionPeer collects the client's data for its session: its address, its certificate, and the token in the metadata "authorization:
// Bearer TOKEN" or "token".
func sessionPeer(p *peer.Peer, md func(string) string) session.Peer {
	sp := session.Peer{Claim: access.Claim{Token: tokenIn(md)}}
	if a, ok := p.Addr.(*net.TCPAddr); ok {
		sp.Addr = a.AddrPort().Addr().Unmap()
	}
	if t, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		sp.Claim.CertURI = access.CertURI(&t.State)
	}
	return sp
}

// Peer describes the client of a call that runs: its address, and its certificate or token.
func Peer(ctx context.Context) session.Peer {
	md, _ := metadata.FromIncomingContext(ctx)
	from, ok := peer.FromContext(ctx)
	if !ok {
		from = &peer.Peer{}
	}
	return sessionPeer(from, first(md))
}

func bearer(v string) string {
	const scheme = "bearer "
	if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return v[len(scheme):]
	}
	return ""
}

// first returns a function that reads the first value of a metadata key.
func first(md metadata.MD) func(string) string {
	return func(name string) string {
		if v := md.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
}

// statusOf turns a handler's error into the status for its client.
func statusOf(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if st, ok := status.FromError(err); ok {
		return st
	}
	if st := status.FromContextError(err); st.Code() != codes.Unknown {
		return st
	}
	return status.New(codes.Unknown, err.Error())
}
