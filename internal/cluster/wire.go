package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// version is the version of the body, which follows the header. The header has the same format in all versions, so that a node can always
// read for whom a message of another version is.
const version = 1

// kind is the kind of a message. The numbers are sent to other nodes: never reuse one.
type kind byte

const (
	kindItem     kind = 1 // a notification for a recipient
	kindSettled  kind = 2 // a notification that need not be delivered any more
	kindHere     kind = 3 // the sender's sessions of a recipient
	kindBeat     kind = 4 // the sender is alive
	kindBye      kind = 5 // the sender ends
	kindAsk      kind = 6
	kindAnswer   kind = 7
	kindObjects  kind = 8  // changed objects; sent over a connection of their own
	kindReread   kind = 9  // a recipient's messages may have been lost
	kindClaims   kind = 10 // the sender claims that recipients came to it first, or left it last
	kindStands   kind = 11 // the answer to claims: the sender's statements about these recipients
	kindRoster   kind = 12 // recipients that came to the sender or left it, for the node that is its backup
	kindNoRoster kind = 13 // the sender lacks part of a roster and asks for all of it
	kindSteps    kind = 14 // for steps of escalations, to the node that processes them
	kindTable    kind = 15 // changes of the sender's table: recipients by hash
	kindNoTable  kind = 16 // the sender lacks part of a table and asks for all of it
	kindInbox    kind = 18 // the counts of an inbox that has changed
	kindBadges   kind = 19 // recipients whose devices were told the number on their icon
	kindTraces   kind = 17 // copies that traces follow, and which of them have ended
)

// message is a message between nodes: a header, and a body whose format depends on the kind.
type message struct {
	version        byte
	kind           kind
	from           string // boot of the sender
	app, recipient string // empty: it is for nodes
	body           []byte
	item           *mailbox.Item // in place of a body
}

var errMessage = errors.New("not a message of a node")

// append appends the encoded message: version, kind, then sender, app and recipient, each after its length, then the body.
func (m *message) append(b []byte) []byte {
	b = append(b, version, byte(m.kind))
	for _, s := range [...]string{m.from, m.app, m.recipient} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if m.item != nil {
		return appendItem(b, m.item)
	}
	return append(b, m.body...)
}

func decode(b []byte) (m message, err error) {
	if len(b) < 2 {
		return m, errMessage
	}
	m.version, m.kind, b = b[0], kind(b[1]), b[2:]
	for _, into := range []*string{&m.from, &m.app, &m.recipient} {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return m, errMessage
		}
		*into, b = string(b[k:k+int(n)]), b[k+int(n):]
	}
	m.body = b
	return m, nil
}

// appendItem appends seq, position, attempts and acknowledgement mode, then the notification in the encoding for clients, which is needed
// anyway.
func appendItem(b []byte, it *mailbox.Item) []byte {
	b = binary.AppendUvarint(b, it.Seq)
	b = binary.AppendVarint(b, it.Pos)
	b = binary.AppendUvarint(b, uint64(it.Attempts))
	b = append(b, byte(it.N.Ack))
	return append(b, frame.NotificationTail(it.N, frame.Proto)...)
}

// decodeItem decodes what appendItem has written. The item shares the memory of b.
func decodeItem(app, recipient string, b []byte) (it mailbox.Item, err error) {
	it.Recipient = recipient
	var n int
	if it.Seq, n = binary.Uvarint(b); n <= 0 {
		return it, errMessage
	}
	b = b[n:]
	if it.Pos, n = binary.Varint(b); n <= 0 {
		return it, errMessage
	}
	b = b[n:]
	attempts, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return it, errMessage
	}
	it.Attempts = uint32(attempts)
	ack, tail := notification.AckMode(b[n]), b[n+1:]
	var p godwitpb.Notification
	if err := proto.Unmarshal(tail, &p); err != nil {
		return it, err
	}
	if p.GetId() == "" || it.Seq == 0 || ack > notification.AckNone {
		return it, errMessage
	}
	it.N = &notification.Notification{
		App: app, ID: p.GetId(), Ack: ack, CreatedAt: moment(p.GetCreatedAtMs()), ExpiresAt: moment(p.GetExpiresAtMs()), ReplyBy: moment(p.GetReplyByMs()),
		Content: notification.Content{
			Title: p.GetTitle(), Body: p.GetBody(), Category: p.GetCategory(), Data: p.GetData(), ContentType: p.GetContentType(),
		},
	}
	switch p.GetPriority() {
	case godwitpb.Priority_PRIORITY_HIGH:
		it.N.Priority = notification.High
	case godwitpb.Priority_PRIORITY_LOW:
		it.N.Priority = notification.Low
	}
	it.N.Wire().Add(frame.Proto.Key(), tail)
	return it, nil
}

// news is the body of kindTable: a change of the sender's table, or a part of the whole table.
type news struct {
	number      uint64 // of a change: one more than the change before; of a part: the number of the last change that the part includes
	part, parts uint64 // counted from 1; 0: this is a change
	came, left  []uint64
}

// append appends number, part, parts and the number of arrived recipients, then the hashes of the arrived and of the departed recipients, 8
// bytes each.
func (n *news) append(b []byte) []byte {
	b = slices.Grow(b, 4*binary.MaxVarintLen64+8*(len(n.came)+len(n.left)))
	for _, v := range [...]uint64{n.number, n.part, n.parts, uint64(len(n.came))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, list := range [...][]uint64{n.came, n.left} {
		for _, h := range list {
			b = binary.BigEndian.AppendUint64(b, h)
		}
	}
	return b
}

func decodeNews(b []byte) (n news, err error) {
	var came uint64
	for _, into := range [...]*uint64{&n.number, &n.part, &n.parts, &came} {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return n, errMessage
		}
		*into, b = v, b[k:]
	}
	size := uint64(len(b) / 8)
	whole := n.parts > 0
	if n.number == 0 || len(b)%8 != 0 || came > size || n.part > n.parts || whole && (n.part == 0 || came < size) {
		return n, errMessage
	}
	all := make([]uint64, size)
	for i := range all {
		if all[i] = binary.BigEndian.Uint64(b[8*i:]); all[i] == 0 {
			return n, errMessage // no recipient has that
		}
	}
	n.came, n.left = all[:came], all[came:]
	return n, nil
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// text encodes the bodies of rare messages as JSON.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // not reached: all of these types can be encoded
	}
	return b
}

// settled is the body of kindSettled.
type settled struct {
	ID     string              `json:"id"`
	Pos    int64               `json:"pos"`
	As     notification.Status `json:"as"`
	Device string              `json:"device,omitempty"`
}
