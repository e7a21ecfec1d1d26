// Package campaign sends one message to an audience over push channels: scheduled, paced, resumable, with one honest
// outcome a recipient, and takes it back again as far as the channels allow.
//
// The way of a campaign: Service.Create → Service.Start → Engine: the enumerator writes a delivery row for every
// endpoint of the audience, senders claim rows (which marks them as being sent, on disk), send, and write the outcomes.
package campaign

import (
	"crypto/sha1" // RFC 9562 builds version 5 on it; nothing here relies on its strength
	"encoding/hex"
	"errors"
	"time"

	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// State is the state of a campaign.
type State string

// States, by their names in the API.
const (
	Draft      State = "draft"
	Scheduled  State = "scheduled"
	Running    State = "running"
	Paused     State = "paused"
	Completed  State = "completed"
	Cancelled  State = "cancelled"
	Failed     State = "failed"
	Recalling  State = "recalling"
	RecallDone State = "recalled"
	Correcting State = "correcting"
)

// States lists all states, in the order of a campaign's life.
var States = []State{Draft, Scheduled, Running, Paused, Completed, Cancelled, Failed, Correcting, Recalling, RecallDone}

// A campaign stores and shows its deliveries with the types of package dispatch, which sends them.
type (
	// Outcome is the result of one delivery.
	Outcome = dispatch.Outcome
	// Target is a delivery that may have to be sent. Its Row is the endpoint's number, which with the campaign identifies the delivery.
	Target = dispatch.Delivery
	// Result is the result of a claimed delivery, or of one that need not be sent.
	Result = dispatch.Result
	// ChannelError reports that a campaign cannot continue because a channel cannot send: it is not set up, or its credential was refused.
	ChannelError = dispatch.ChannelError
)

// Outcomes.
const (
	Pending    = dispatch.Pending
	Sending    = dispatch.Sending
	Accepted   = dispatch.Accepted
	Refused    = dispatch.Refused
	Expired    = dispatch.Expired
	Suppressed = dispatch.Suppressed
	Unknown    = dispatch.Unknown
	TakenBack  = dispatch.TakenBack
)

// ParseOutcome parses an outcome's public name.
func ParseOutcome(s string) (Outcome, bool) { return dispatch.ParseOutcome(s) }

// Errors of campaigns.
var (
	ErrNotFound = errors.New("no such campaign")
	// ErrStale means that another server now owns the app: the former owner's results are ignored.
	ErrStale = dispatch.ErrStale
	// ErrReused means that an Idempotency-Key was used before with another body.
	ErrReused = errors.New("the idempotency key was used with another body")
)

// StateError reports that a request is not allowed in the campaign's state.
type StateError struct {
	Action string
	State  State
	Hint   string // an alternative to suggest; may be empty
}

func (e *StateError) Error() string {
	s := "a campaign that is " + string(e.State) + " cannot " + e.Action
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Campaign is the stored form of a campaign. Counts are not part of it: see Figures.
type Campaign struct {
	Num        int64  // the store's own, small
	ID         string // ULID
	App        string
	Spec       Spec
	State      State
	Detail     string         // why the campaign is paused or failed; empty otherwise
	Channels   []push.Channel // channels to send over; determined when the campaign starts
	SendAt     time.Time      // zero: when somebody starts it
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	Enumerated bool // every endpoint of the audience has a delivery row
	Cursor     int64
	Recall     int64 // last row that the recall or the correction has handled; see RecallQueue
	// RecallFrom is the state before the recall or the correction. After a correction, the campaign returns to it.
	RecallFrom State
}

// Ended reports whether the campaign no longer changes by itself.
func (c *Campaign) Ended() bool {
	switch c.State {
	case Completed, Cancelled, Failed, RecallDone:
		return true
	}
	return false
}

// Figures are a campaign's counts.
type Figures struct {
	Counts    map[Outcome]int64
	Channels  map[push.Channel]map[Outcome]int64
	Shown     int64 // deliveries reported as shown at least once
	Clicked   int64
	Dismissed int64
	// NotRecalled counts deliveries that a recall could not withdraw.
	NotRecalled int64
	Groups      [Groups]GroupFigures // of a campaign with variants; that of Whole stays empty
	// Corrected and NotCorrected count the deliveries that the last correction has processed, by success.
	Corrected, NotCorrected int64
}

// GroupFigures are the counts of a part of the audience. Deliveries that are being sent count as pending.
type GroupFigures struct {
	Counts                    map[Outcome]int64
	Shown, Clicked, Dismissed int64
}

// Total returns the number of the group's deliveries so far.
func (g *GroupFigures) Total() (n int64) {
	for _, c := range g.Counts {
		n += c
	}
	return n
}

// Open returns the number of the group's deliveries without an outcome.
func (g *GroupFigures) Open() int64 { return g.Counts[Pending] }

// Arrived returns the number of messages that were accepted, or may have been.
func (g *GroupFigures) Arrived() int64 {
	return g.Counts[Accepted] + g.Counts[Unknown] + g.Counts[TakenBack]
}

// Total returns the number of deliveries so far.
func (f *Figures) Total() (n int64) {
	for _, c := range f.Counts {
		n += c
	}
	return n
}

// Open returns the number of deliveries without an outcome.
func (f *Figures) Open() int64 { return f.Counts[Pending] + f.Counts[Sending] }

// namespace is the UUID namespace of delivery ids, generated once at random.
var namespace = [16]byte{0x8a, 0x41, 0x0d, 0x6e, 0x57, 0x2c, 0x4b, 0x1f, 0x9d, 0x30, 0x6b, 0x95, 0xe2, 0x7c, 0x18, 0xf4}

// DeliveryID returns the UUID (version 5, RFC 9562) of a campaign's message to an endpoint: it is the same for every attempt, so that
// providers and receivers recognise a repeated message.
func DeliveryID(campaign, endpoint string) string {
	h := sha1.New()
	h.Write(namespace[:])
	h.Write([]byte(campaign + "\n" + endpoint))
	var sum [sha1.Size]byte
	u := h.Sum(sum[:0])[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}
