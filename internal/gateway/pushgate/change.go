package pushgate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
)

// change is a registration, or its end, that waits for the database. The device's next message is read afterwards.
type change struct {
	c       *conn
	end     bool
	channel string
	sender  string // the only one; empty: any
}

// Statuses of answers to registrations, beside those of HTTP with the same meaning.
const (
	statusDone    = http.StatusOK
	statusBad     = http.StatusBadRequest
	statusFull    = http.StatusConflict // the device has too many channels
	statusTooFast = http.StatusTooManyRequests
	statusLater   = http.StatusServiceUnavailable
)

// change begins a registration or its end.
func (c *conn) change(m *message) {
	x := &change{c: c, end: m.Type == typeUnregister, channel: m.ChannelID}
	var err error
	switch limit := c.gate.cfg.Registers; {
	case !isUUID(m.ChannelID):
		x.answer(statusBad, "")
		return
	case x.end:
		c.gate.counts.leave(m.Code)
	case limit != nil && !limit.Allow(c.out.RemoteAddr().Addr().Unmap()):
		x.answer(statusTooFast, "")
		return
	default:
		if x.sender, err = senderKey(m.Key); err != nil {
			x.answer(statusBad, "")
			return
		}
	}
	c.set(changing)
	c.out.Pause()
	if !c.gate.later.Add(c.device, x.carryOut) {
		x.answer(statusLater, "")
		c.unset(changing)
		c.out.Resume()
	}
}

// carryOut stores a change, answers it, and lets the device go on.
func (x *change) carryOut() {
	ctx, cancel := context.WithTimeoutCause(x.c.gate.ctx, patience, fmt.Errorf("the database did not answer in %s", patience))
	defer cancel()
	status, endpoint := x.store(ctx)
	x.answer(status, endpoint)
	x.c.unset(changing)
	x.c.readOn()
}

func (x *change) store(ctx context.Context) (status int, endpoint string) {
	var token string
	var err error
	if st := x.c.gate.cfg.Channels; x.end {
		err = st.Unregister(ctx, x.c.device, x.channel)
	} else {
		token, err = st.Register(ctx, x.c.device, x.channel, x.sender)
	}
	switch {
	case errors.Is(err, channeldb.ErrTooMany):
		return statusFull, ""
	case err != nil:
		x.c.gate.cfg.Log.WarnContext(ctx, "a push registration was not stored; the device tries again", "error", err)
		return statusLater, ""
	case x.end:
		return statusDone, ""
	}
	return statusDone, x.c.origin + endpointPath(x.sender) + token
}

// answer tells the device what became of its registration. The answer repeats the channel's name, cut to the length of a UUID.
func (x *change) answer(status int, endpoint string) {
	kind := typeRegister
	if x.end {
		kind = typeUnregister
	}
	x.c.gate.counts.change(kind, status)
	x.c.send(encode(channelAnswer{Type: kind, ChannelID: x.channel[:min(len(x.channel), uuidLength)], Status: status, Endpoint: endpoint}))
}

// endpointPath is the path of push endpoints: those of channels that any sender may use have another version than those of one sender.
func endpointPath(sender string) string {
	if sender == "" {
		return "/wpush/v1/"
	}
	return "/wpush/v2/"
}

var errKey = errors.New("a sender's key is an uncompressed point of P-256 in base64url")

// senderKey checks a sender's public key and returns it in base64url without padding; empty: there is none.
func senderKey(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	point, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return "", errKey
	}
	if _, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err != nil {
		return "", errKey
	}
	return base64.RawURLEncoding.EncodeToString(point), nil
}
