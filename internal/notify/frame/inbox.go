package frame

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Inbox tells the counts of the recipient's inbox.
type Inbox struct {
	Unseen, Unread int
	Changed        []string // ids of what has changed; in a welcome: none
	More           bool     // there were more
}

// AppendInbox appends an inbox frame.
func AppendInbox(dst []byte, f Format, in *Inbox) []byte { return f.Inbox(dst, *in) }

func (t textEncoding) Inbox(dst []byte, in Inbox) []byte {
	dst = appendInboxCounts(t.open(dst, ServerInbox), &in)
	dst = appendStrings(append(dst, `,"changed":`...), in.Changed)
	if in.More {
		dst = append(dst, `,"more":true`...)
	}
	return t.end(append(dst, '}'))
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
	return appendProtoInt(dst, 4, protoBool(in.More))
}

// welcomeInbox is the number of the counts in godwit.v1.Welcome.
const welcomeInbox protowire.Number = 8

func (payloadEncoding) Inbox(dst []byte, _ Inbox) []byte { return dst }
