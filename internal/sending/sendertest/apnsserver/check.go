package apnsserver

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	tokenLife   = time.Hour
	tokenRest   = 20 * time.Minute
	clocksApart = 5 * time.Minute
)

func refuse(status int, reason string) Behaviour { return Behaviour{Status: status, Reason: reason} }

// authenticate checks the token as Apple does.
func (s *Server) authenticate(header string) Behaviour {
	token, ok := strings.CutPrefix(header, "bearer ")
	if !ok {
		return refuse(http.StatusForbidden, "MissingProviderToken")
	}
	issued, err := s.verify(token)
	now := s.opts.Now()
	switch age := now.Sub(issued); {
	case err != nil || age < -clocksApart:
		return refuse(http.StatusForbidden, "InvalidProviderToken")
	case age > tokenLife:
		return refuse(http.StatusForbidden, "ExpiredProviderToken")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != s.token {
		if s.token != "" && now.Sub(s.changed) < s.opts.Rest {
			return refuse(http.StatusTooManyRequests, "TooManyProviderTokenUpdates")
		}
		s.token, s.changed = token, now
		s.tokens++
	}
	return Accepting
}

// verify verifies a token (RFC 7515, ES256) and returns when it was issued. It shares no code with the sender.
func (s *Server) verify(token string) (issued time.Time, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, errors.New("not a JWS")
	}
	var head struct{ Alg, Kid string }
	var claims struct {
		Iss string
		Iat int64
	}
	for i, into := range []any{&head, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return issued, err
		}
		if err := json.Unmarshal(b, into); err != nil {
			return issued, err
		}
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 {
		return issued, errors.New("not a signature of 64 bytes")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	switch {
	case head.Alg != "ES256" || head.Kid != s.opts.KeyID || claims.Iss != s.opts.TeamID || claims.Iat == 0:
		return issued, errors.New("of another key or team")
	case !ecdsa.Verify(s.opts.Public, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])):
		return issued, errors.New("signed by another")
	}
	return time.Unix(claims.Iat, 0), nil
}

var (
	uuidForm  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	tokenForm = regexp.MustCompile(`^[0-9a-fA-F]{64,200}$`)
)

// accept returns the answer to a request.
func (s *Server) accept(m *Message) Behaviour {
	switch {
	case strings.HasPrefix(m.path, "/1/apps/"):
		return s.manage(m)
	case strings.HasPrefix(m.path, "/4/broadcasts/"):
		return s.checkBroadcast(m)
	}
	if b := s.check(m); b.Status != 0 {
		return b
	}
	return s.behaves(m)
}

// check returns the reason why Apple would refuse a message to any device.
func (s *Server) check(m *Message) Behaviour {
	token, ok := strings.CutPrefix(m.path, "/3/device/")
	m.Device = token
	_, badExpiration := strconv.ParseUint(m.Expiration, 10, 63)
	var p struct {
		APS *map[string]json.RawMessage `json:"aps"`
	}
	switch {
	case m.method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed")
	case !ok:
		return refuse(http.StatusNotFound, "BadPath")
	case len(m.Payload) > maxPayload:
		return refuse(http.StatusRequestEntityTooLarge, "PayloadTooLarge")
	case len(m.Payload) == 0, json.Unmarshal(m.Payload, &p) != nil, p.APS == nil:
		return refuse(http.StatusBadRequest, "PayloadEmpty")
	case !uuidForm.MatchString(m.ID):
		return refuse(http.StatusBadRequest, "BadMessageId")
	case badExpiration != nil:
		return refuse(http.StatusBadRequest, "BadExpirationDate")
	case m.PushType == activityKind && m.Topic != s.opts.Topic+activityEnd:
		return refuse(http.StatusBadRequest, "TopicDisallowed")
	case m.PushType == activityKind && !tokenForm.MatchString(token):
		return refuse(http.StatusBadRequest, "BadDeviceToken")
	case m.PushType == activityKind:
		return s.checkActivity(m)
	case len(m.Collapse) == 0 || len(m.Collapse) > 64:
		return refuse(http.StatusBadRequest, "BadCollapseId")
	case m.PushType != "alert" && m.PushType != "background":
		return refuse(http.StatusBadRequest, "InvalidPushType")
	case m.Priority != "10" && m.Priority != "5" && m.Priority != "1", m.Priority == "10" && m.PushType == "background":
		return refuse(http.StatusBadRequest, "BadPriority")
	case m.PushType == "background" && ((*p.APS)["alert"] != nil || (*p.APS)["badge"] != nil || (*p.APS)["sound"] != nil):
		return refuse(http.StatusBadRequest, "BadPushType") // Apple drops it without a word
	case m.Topic == "":
		return refuse(http.StatusBadRequest, "MissingTopic")
	case m.Topic != s.opts.Topic:
		return refuse(http.StatusBadRequest, "TopicDisallowed")
	case !tokenForm.MatchString(token):
		return refuse(http.StatusBadRequest, "BadDeviceToken")
	}
	return Accepting
}
