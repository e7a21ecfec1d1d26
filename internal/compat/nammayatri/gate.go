package nammayatri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/frame"
)

// maxSessionID limits the session ids that clients choose, in bytes.
const maxSessionID = 128

// Device names of sessions. A client has one stream: a second one replaces it, whatever its method. Streams that name a session are
// separate devices, one for each session name.
const (
	theApp     = "app"
	sessionsOf = "session:"
)

// method returns one of the two methods that send notifications; once selects the one without acknowledgements.
func (s *Service) method(path string, once bool) *grpcgate.SessionMethod {
	return &grpcgate.SessionMethod{
		Hub: s.hub, Format: frame.Payload, Name: "grpc", Deaf: once,
		Hello: func(md func(string) string) (*frame.Hello, access.Claim, error) {
			claim, err := s.claim(md, once)
			if err != nil {
				s.cfg.Metrics.refused(path, status.Convert(err), 0)
			}
			return &frame.Hello{Once: once}, claim, err
		},
		Goodbye:  goodbye,
		Welcomed: func(took time.Duration) { s.cfg.Metrics.begun(path, took) },
		Ended: func(took time.Duration, reason string) {
			if st := goodbye(frame.Goodbye{Reason: reason}); st.Code() != codes.OK {
				s.cfg.Metrics.refused(path, st, took)
				return
			}
			s.cfg.Metrics.ended(took, reason == timedOut)
		},
	}
}

// claim is the identity that a client states in its metadata.
func (s *Service) claim(md func(string) string, once bool) (access.Claim, error) {
	c := access.Claim{App: App, Token: md("token"), Origin: originOf(md), Device: theApp}
	if c.Token == "" {
		return c, errNoToken
	}
	if id := md("session-id"); once && id != "" {
		if len(id) > maxSessionID {
			return c, status.Errorf(codes.InvalidArgument, "session-id has %d bytes; at most %d are allowed", len(id), maxSessionID)
		}
		c.Device = sessionsOf + id
	}
	return c, nil
}

var errNoToken = status.Error(codes.InvalidArgument, "token is missing in the metadata")

// timedOut is the reason of the goodbye when a session reaches its time limit.
const timedOut = "token_expired"

// refusals maps reasons of goodbyes to the texts for rejected or misbehaving clients. The status is always INTERNAL: after it, clients
// connect again.
var refusals = map[string]string{
	"unauthenticated":   "authentication failed: the token was not accepted",
	"forbidden":         "authentication failed: the token was not accepted",
	"unknown_app":       "authentication failed: the token was not accepted",
	"bad_hello":         "authentication failed: the client id cannot be served",
	"auth_unavailable":  "authentication failed: it cannot be checked now; connect again later",
	"rate_limited":      "too many connects; connect again later",
	"too_many_sessions": "too many sessions of this client",
	"too_many_errors":   "too many messages that are no acknowledgements",
	"hello_timeout":     "authentication took too long; connect again later",
}

// goodbye returns the status that ends a stream: OK if the client did nothing wrong and connects again, or if another stream has replaced
// this one.
func goodbye(g frame.Goodbye) *status.Status {
	if why := refusals[g.Reason]; why != "" {
		return status.New(codes.Internal, why)
	}
	return status.New(codes.OK, "")
}

// health answers probes.
type health struct {
	nammayatripb.UnimplementedHealthServer
	s *Service
}

// Check reports that the service is serving, until it stops.
func (h *health) Check(context.Context, *nammayatripb.HealthCheckRequest) (*nammayatripb.HealthCheckResponse, error) {
	select {
	case <-h.s.cfg.Stopping:
		return &nammayatripb.HealthCheckResponse{Status: nammayatripb.HealthCheckResponse_NOT_SERVING}, nil
	default:
		return &nammayatripb.HealthCheckResponse{Status: nammayatripb.HealthCheckResponse_SERVING}, nil
	}
}
