// Package escalation sends notifications that nobody acknowledges over the live connection to the push channels that their
// publisher named, one step after the other, until somebody does.
//
// The way of a step: mailbox.Escalator.StepsDue → Service.handOver: a Send for each endpoint, on disk → HandedOver → dispatch, with
// backlog as the source of sends. DESIGN.md gives the reasons for this order.
package escalation

import (
	"context"
	"crypto/sha1" // RFC 9562 builds version 5 on it; nothing here relies on its strength
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// Send is one step's message to one endpoint, or the record that the step had no endpoint.
type Send struct {
	Num       int64 // number in the store; 0: not stored yet
	ID        [16]byte
	App       string
	Recipient string
	Note      string // the notification's id
	Pos       int64  // of its copy
	Step      int
	Channel   push.Channel
	Endpoint  int64 // its number; 0: the recipient had no endpoint
	// EndpointID is the endpoint's id in the API.
	EndpointID audience.ID
	ExpiresAt  time.Time
	Options    notification.StepOptions // options of the step; if To is set there is no endpoint, and Address names the target

	Outcome  dispatch.Outcome // Suppressed if there is no endpoint
	Attempts int
	At       time.Time // of the last change
	First    time.Time // time of the first attempt; zero: none yet
	External string    // the provider's name for the message
	Detail   string
	Tried    bool   // withdrawing the message failed; Detail is the reason
	Held     bool   // the send waits until an operator has checked why its channel was refused; Detail is the reason
	Address  []byte // address of the endpoint; nil: the endpoint was deleted

	Shown, Clicked, Dismissed bool // as its receiver says
	Answered                  bool // the receiver has acknowledged, so the message is not withdrawn
}

// Nobody reports whether the step had no endpoint to send to.
func (s *Send) Nobody() bool { return s.Endpoint == 0 && s.Options.To == "" }

// Answer is a receiver's report about a send.
type Answer struct {
	ID      [16]byte
	Event   *push.Reaction // nil: only that it acknowledges
	Settles bool           // it acknowledges the notification
}

// Due is a send that is due.
type Due struct {
	dispatch.Delivery
	Note      string
	Pos       int64
	ID        [16]byte
	ExpiresAt time.Time
	Options   notification.StepOptions
}

// Place is a channel of an app.
type Place struct {
	App     string
	Channel push.Channel
}

// ErrStale says that another server has taken over the sends of steps.
var ErrStale = dispatch.ErrStale

// Store keeps sends. dispatch.Delivery.Row is the number of a send.
type Store interface {
	// Hand stores the sends that are not stored yet, identified by their ids. Sends without an endpoint are stored as ended.
	Hand(ctx context.Context, sends []Send, now time.Time) error
	// RecoverSends handles an app's sends that were being sent when the process ended or another server lost its lease: on the channels in
	// resend they become pending again, on others unknown. From then on this store claims and finishes the app's sends; a store that
	// recovered earlier fails with ErrStale.
	RecoverSends(ctx context.Context, app string, resend []push.Channel, now time.Time) (n int, err error)
	// WaitingSends lists places with sends that are pending (and not held), are being sent, or were being sent when a server ended.
	WaitingSends(ctx context.Context) ([]Place, error)
	// DueSends, NextSend, ClaimSends and FinishSends implement, for the sends of a place, the methods of dispatch.Backlog.
	DueSends(ctx context.Context, p Place, now time.Time, limit int) ([]Due, error)
	NextSend(ctx context.Context, p Place) (at time.Time, err error)
	ClaimSends(ctx context.Context, p Place, rows []int64, now time.Time) (claimed map[int64]bool, err error)
	FinishSends(ctx context.Context, p Place, results []dispatch.Result, now time.Time) error
	// ReleaseSends makes held sends pending again, and lists their apps.
	ReleaseSends(ctx context.Context, now time.Time) (apps []string, err error)
	// SendsOf lists the sends for a recipient's copy of a notification, in the order of steps.
	SendsOf(ctx context.Context, app, note, recipient string) ([]Send, error)
	// ShownSends lists sends with numbers above after that a provider has accepted or may have accepted, that have not expired, and that no
	// attempt was made to withdraw.
	ShownSends(ctx context.Context, after int64, now time.Time, limit int) ([]Send, error)
	// Withdrawn records that such a send was withdrawn, or why withdrawing failed. The reason why an outcome was unknown stays in its
	// detail.
	Withdrawn(ctx context.Context, num int64, failed string, now time.Time) error
	// Answered records receivers' reports about an app's sends, and returns the changed sends in the order of answers; zero: the send does
	// not exist.
	Answered(ctx context.Context, app string, answers []Answer, now time.Time) ([]Send, error)
	// PruneSends ends held sends that have expired, and deletes sends that ended before a time.
	PruneSends(ctx context.Context, before, now time.Time, limit int) (more bool, err error)
}

// namespace of the ids, chosen once at random
var namespace = [16]byte{0x3d, 0xb2, 0x91, 0x0c, 0x7f, 0x44, 0x4e, 0x6a, 0x8b, 0x17, 0xe0, 0x5c, 0x29, 0xd8, 0xa3, 0x60}

// ID is the UUID (version 5, RFC 9562) of a step's send to an endpoint. It is the same for every attempt, and if the step is handed over
// twice. A step without endpoints uses the zero endpoint.
func ID(d *mailbox.StepDue, endpoint audience.ID) (u [16]byte) {
	h := sha1.New()
	h.Write(namespace[:])
	h.Write([]byte(d.App + "\n" + d.ID + "\n" + d.Recipient + "\n" + strconv.Itoa(d.Step) + "\n" + strconv.FormatInt(d.Pos, 10) + "\n"))
	h.Write(endpoint[:])
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return u
}

// text writes an id in the form for providers and receivers.
func text(u [16]byte) string {
	b := make([]byte, 0, 36)
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return string(b)
}

// TargetAddress is the address of one of an app's targets. The channel's settings contain the targets by name.
func TargetAddress(name string) json.RawMessage { return json.RawMessage(`{"target":"` + name + `"}`) } // names need no escapes

// targetID is the endpoint id of a target.
func targetID(app, name string) (id audience.ID) {
	sum := sha256.Sum256([]byte("target\n" + app + "\n" + name))
	copy(id[:], sum[:])
	return id
}
