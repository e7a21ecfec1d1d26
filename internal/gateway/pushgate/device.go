package pushgate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"godwit.dev/godwit/internal/access"
)

// A device shows its uaid, which is all that it has: who knows it gets the device's messages. So the server stores and logs a hash of it, which is
// the name of the device's mailbox.

// uaidLength is the length of a uaid: 128 random bits in hexadecimal.
const uaidLength = 32

func newUAID() string {
	var b [uaidLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// isUAID reports whether this server may have made a uaid.
func isUAID(s string) bool {
	if len(s) != uaidLength {
		return false
	}
	for i := range len(s) {
		if !isHex(s[i]) || s[i] >= 'A' && s[i] <= 'F' {
			return false
		}
	}
	return true
}

// deviceOf is the name of the device with a uaid.
func deviceOf(uaid string) string {
	sum := sha256.Sum256([]byte("push device\n" + uaid))
	return hex.EncodeToString(sum[:16])
}

// oneSession is the name of a device's only session: a new connection ends the former one.
const oneSession = "push"

// Vouch implements session.Voucher: a device that is not known gets a new uaid, by which it learns that its subscriptions have ended.
func (c *conn) Vouch(ctx context.Context) (access.Client, error) {
	known := false
	if isUAID(c.uaid) {
		ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the database did not answer in %s", patience))
		defer cancel()
		var err error
		if known, err = c.gate.cfg.Channels.Known(ctx, deviceOf(c.uaid)); err != nil {
			return access.Client{}, fmt.Errorf("%w: %w", access.ErrUnavailable, err)
		}
	}
	if !known {
		c.uaid = newUAID()
	}
	c.device = deviceOf(c.uaid)
	return access.Client{App: App, Recipient: c.device, Device: oneSession}, nil
}
