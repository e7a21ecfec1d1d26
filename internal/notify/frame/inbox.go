package frame

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notify/inbox"
)

// Inbox tells the counts of the recipient's inbox.
type Inbox struct {
	Unseen, Unread int
	Changed        []string       // ids of what has changed; in a welcome: none
	More           bool           // there were more
	Marked         []inbox.Marked // of changed items that have neither come nor gone
}

// AppendInbox appends an inbox frame.
func AppendInbox(dst []byte, f Format, in *Inbox) []byte { return f.Inbox(dst, *in) }

func (t textEncoding) Inbox(dst []byte, in Inbox) []byte {
	dst = appendInboxCounts(t.open(dst, ServerInbox), &in)
	dst = appendStrings(append(dst, `,"changed":`...), in.Changed)
	if in.More {
		dst = append(dst, `,"more":true`...)
	}
	if len(in.Marked) > 0 {
		dst = append(dst, `,"marked":`...)
		for i := range in.Marked {
			dst = appendMarked(append(dst, "[,"[min(i, 1)]), &in.Marked[i])
		}
		dst = append(dst, ']')
	}
	return t.end(append(dst, '}'))
}

// appendMarked appends an item without the marks that it does not have.
func appendMarked(dst []byte, m *inbox.Marked) []byte {
	dst = appendString(append(dst, `{"id":`...), m.ID)
	for _, is := range [...]struct {
		set  bool
		name string
	}{{m.Seen, "seen"}, {m.Read, "read"}, {m.Archived, "archived"}, {m.Pinned, "pinned"}} {
		if is.set {
			dst = append(append(append(dst, `,"`...), is.name...), `":true`...)
		}
	}
	return append(appendText(dst, "answered", m.Answered), '}')
}

// appendInboxCounts begins an object with counts.
func appendInboxCounts(dst []byte, in *Inbox) []byte {
	dst = strconv.AppendInt(append(dst, `{"unseen":`...), int64(in.Unseen), 10)
	return strconv.AppendInt(append(dst, `,"unread":`...), int64(in.Unread), 10)
}

func (protoEncoding) Inbox(dst []byte, in Inbox) []byte {
	dst = openProto(dst, ServerInbox)
	return putLength(appendProtoInbox(dst, &in), len(dst))
}

func appendProtoInbox(dst []byte, in *Inbox) []byte {
	dst = appendProtoInt(dst, 1, int64(in.Unseen))
	dst = appendProtoInt(dst, 2, int64(in.Unread))
	dst = appendProtoStrings(dst, 3, in.Changed)
	dst = appendProtoInt(dst, 4, protoBool(in.More))
	for _, m := range in.Marked {
		dst = protowire.AppendTag(dst, 5, protowire.BytesType)
		at := len(dst)
		dst = appendProtoString(dst, 1, m.ID)
		for i, is := range [...]bool{m.Seen, m.Read, m.Archived, m.Pinned} {
			dst = appendProtoInt(dst, protowire.Number(i+2), protoBool(is))
		}
		dst = putLength(appendProtoString(dst, 6, m.Answered), at)
	}
	return dst
}

// welcomeInbox is the number of the counts in godwit.v1.Welcome.
const welcomeInbox protowire.Number = 8

func (payloadEncoding) Inbox(dst []byte, _ Inbox) []byte { return dst }
