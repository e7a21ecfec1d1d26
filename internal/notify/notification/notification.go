// Package notification defines notifications, their states, and the rules for publishing them. It has no stores or connections.
package notification

import (
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/encoded"
)

// Limits of a publish. They are part of the public contract.
const (
	MaxRecipients   = 1000                // recipients of one publish
	MaxRequestBytes = 256 << 10           // one publish, as sent
	MaxNameBytes    = 128                 // app, recipient, id, group, object, device, queue, collapse key
	DefaultTTL      = 24 * time.Hour      // used if neither ttl nor expires_at is given
	MaxTTL          = 30 * 24 * time.Hour // a mailbox is not an archive
	AckGrace        = 60 * time.Second    // an ack this long after the expiry still counts if the notification had been delivered
	DedupWindow     = 24 * time.Hour      // time after settling in which a repeated id is a duplicate
	MaxReplyBytes   = 64 << 10            // what a recipient answers
	MaxNacks        = 5                   // a notification that clients could not accept this many times ends as failed
)

// Content is the content of a notification. Two publishes with the same id must have the same content.
type Content struct {
	Title, Body, Category string
	Data                  []byte
	ContentType           string // of Data
	// Push is the content for push channels, as the package template writes it; nil: the same content.
	Push []byte
	// Key replaces the content in the comparison of two publishes of one id, if the content was made from data that may change meanwhile.
	Key string
	// Inbox says how inboxes keep it; nil: they do not. It is no part of the comparison.
	Inbox *Inbox
}

// Notification is one publish: the data that all its recipients share. It is immutable once published.
type Notification struct {
	App         string
	ID          string
	Content     Content
	Priority    Priority
	Ack         AckMode
	CollapseKey string
	CreatedAt   time.Time
	SendAt      time.Time // zero: at once
	ExpiresAt   time.Time
	ReplyBy     time.Time // when the recipient should have answered, and when the notification expires; zero: it asks for no reply
	Steps       []Step    // escalation steps beyond live; nil: it goes only to sessions

	wire encoded.Forms
}

// Reply is a recipient's answer to a notification with a question.
type Reply struct {
	Status      int // as of HTTP
	ContentType string
	Data        []byte // at most MaxReplyBytes
}

// Wire returns the parts of the notification's frames that all receivers share, by wire format.
func (n *Notification) Wire() *encoded.Forms { return &n.wire }

// Priority orders the waiting notifications of a recipient. The zero value is normal.
type Priority int8

// Priorities, in the order in which waiting notifications are delivered.
const (
	High   Priority = -1
	Normal Priority = 0
	Low    Priority = 1
)

// AckMode decides which event settles a notification.
type AckMode uint8

// Ack modes.
const (
	AckAny  AckMode = iota // the first device to acknowledge settles it
	AckAll                 // every device online or known must acknowledge
	AckNone                // the first write to a connection settles it
)

// Status is the state of one recipient's copy of a notification.
type Status uint8

// Statuses. The numbers are stored: never renumber.
const (
	Scheduled Status = 1 // waits for send_at
	Stored    Status = 2 // on disk, waiting for the recipient
	Delivered Status = 3 // written to at least one connection; with ack "none" this settles it
	Gathered  Status = 4 // waits for the notification that its digest becomes; no mailbox has such a copy
	Acked     Status = 10
	Replied   Status = 11
	Expired   Status = 12
	Replaced  Status = 13 // replaced by a newer one with the same collapse key
	Recalled  Status = 14
	Failed    Status = 15
	Digested  Status = 16 // went into a digest; no mailbox has such a copy
)

// Settled reports whether a copy with this status and mode cannot change any more.
func (s Status) Settled(mode AckMode) bool {
	return s >= Acked || s == Delivered && mode == AckNone
}

var (
	statusNames = map[Status]string{
		Scheduled: "scheduled", Stored: "stored", Delivered: "delivered", Acked: "acked", Replied: "replied",
		Expired: "expired", Replaced: "replaced", Recalled: "recalled", Failed: "failed",
	}
	asideNames    = map[Status]string{Gathered: "gathered", Digested: "digested"}
	priorityNames = map[Priority]string{High: "high", Normal: "normal", Low: "low"}
	ackNames      = map[AckMode]string{AckAny: "any", AckAll: "all", AckNone: "none"}
)

func (s Status) String() string {
	if name, ok := asideNames[s]; ok {
		return name
	}
	return statusNames[s]
}

func (p Priority) String() string { return priorityNames[p] }
func (m AckMode) String() string  { return ackNames[m] }

// ParseStatus parses the public name of a status that a copy in a mailbox may have.
func ParseStatus(s string) (Status, bool) { return parse(statusNames, s) }

// StatusNames lists the public names of the statuses of copies in mailboxes, in the order in which a notification passes through them.
func StatusNames() (names []string) {
	for _, s := range slices.Sorted(maps.Keys(statusNames)) {
		names = append(names, statusNames[s])
	}
	return names
}

// ParsePriority reads high, normal or low; empty is normal.
func ParsePriority(s string) (Priority, bool) {
	if s == "" {
		return Normal, true
	}
	return parse(priorityNames, s)
}

// ParseAckMode reads any, all or none; empty is any.
func ParseAckMode(s string) (AckMode, bool) {
	if s == "" {
		return AckAny, true
	}
	return parse(ackNames, s)
}

func parse[T comparable](names map[T]string, s string) (T, bool) {
	for v, name := range names {
		if name == s {
			return v, true
		}
	}
	var zero T
	return zero, false
}
