package frame

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// protoEncoding writes godwit.v1.ServerFrame.
type protoEncoding struct{}

// Field numbers of godwit.v1.Notification.
const (
	noteSeq       protowire.Number = 1
	noteAttempt   protowire.Number = 2
	noteID        protowire.Number = 3
	noteTitle     protowire.Number = 4
	noteBody      protowire.Number = 5
	noteCategory  protowire.Number = 6
	noteData      protowire.Number = 7
	noteType      protowire.Number = 8
	notePriority  protowire.Number = 9
	noteCreatedAt protowire.Number = 10
	noteExpiresAt protowire.Number = 11
	noteReplyBy   protowire.Number = 12
)

// smallFrame is the size in bytes of a stack buffer for a frame's body; longer bodies move to the heap.
const smallFrame = 512

// openProto begins a frame; its length must follow.
func openProto(dst []byte, k ServerKind) []byte {
	return protowire.AppendTag(dst, protowire.Number(k), protowire.BytesType)
}

func protoHead(dst []byte, seq uint64, attempt uint32, tailLen int) []byte {
	size := protowire.SizeTag(noteSeq) + protowire.SizeVarint(seq) +
		protowire.SizeTag(noteAttempt) + protowire.SizeVarint(uint64(attempt))
	dst = openProto(dst, ServerNotification)
	dst = protowire.AppendVarint(dst, uint64(size+tailLen))
	dst = protowire.AppendTag(dst, noteSeq, protowire.VarintType)
	dst = protowire.AppendVarint(dst, seq)
	dst = protowire.AppendTag(dst, noteAttempt, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(attempt))
}

func (protoEncoding) NotificationTail(n *notification.Notification) []byte {
	c := &n.Content
	dst := make([]byte, 0, tailSize(n))
	dst = appendProtoString(dst, noteID, n.ID)
	dst = appendProtoString(dst, noteTitle, c.Title)
	dst = appendProtoString(dst, noteBody, c.Body)
	dst = appendProtoString(dst, noteCategory, c.Category)
	if len(c.Data) > 0 {
		dst = protowire.AppendTag(dst, noteData, protowire.BytesType)
		dst = protowire.AppendBytes(dst, c.Data)
		dst = appendProtoString(dst, noteType, c.ContentType)
	}
	dst = appendProtoInt(dst, notePriority, protoPriority(n.Priority))
	dst = appendProtoInt(dst, noteCreatedAt, n.CreatedAt.UnixMilli())
	dst = appendProtoInt(dst, noteExpiresAt, n.ExpiresAt.UnixMilli())
	if !n.ReplyBy.IsZero() {
		dst = appendProtoInt(dst, noteReplyBy, n.ReplyBy.UnixMilli())
	}
	return slices.Clip(dst)
}

// protoPriority returns the number of godwit.v1.Priority: HIGH is 1, NORMAL 2, LOW 3.
func protoPriority(p notification.Priority) int64 { return int64(p) + 2 }

func (protoEncoding) Welcome(dst []byte, w Welcome) []byte {
	var buf [smallFrame]byte
	m := appendProtoString(buf[:0], 1, w.Session)
	m = appendProtoString(m, 2, w.App)
	m = appendProtoString(m, 3, w.Recipient)
	m = appendProtoInt(m, 4, w.Heartbeat.Milliseconds())
	m = appendProtoString(m, 5, w.Digest)
	m = appendProtoInt(m, 6, int64(w.Registrations))
	m = appendProtoInt(m, 7, w.ServerTime.UnixMilli())
	if w.Inbox != nil {
		var counts [32]byte
		m = protowire.AppendTag(m, welcomeInbox, protowire.BytesType)
		m = protowire.AppendBytes(m, appendProtoInbox(counts[:0], w.Inbox))
	}
	return protowire.AppendBytes(openProto(dst, ServerWelcome), m)
}

func (protoEncoding) Recall(dst []byte, ids []string) []byte {
	dst = openProto(dst, ServerRecall)
	return putLength(appendProtoStrings(dst, 1, ids), len(dst))
}

func (protoEncoding) Pong(dst []byte, digest string) []byte {
	var buf [smallFrame]byte
	return protowire.AppendBytes(openProto(dst, ServerPong), appendProtoString(buf[:0], 1, digest))
}

func (protoEncoding) Goodbye(dst []byte, g Goodbye) []byte {
	var buf [smallFrame]byte
	m := appendProtoString(buf[:0], 1, g.Reason)
	return protowire.AppendBytes(openProto(dst, ServerGoodbye), appendProtoInt(m, 2, g.RetryAfter.Milliseconds()))
}

func (protoEncoding) Error(dst []byte, e Error) []byte {
	var buf [smallFrame]byte
	m := appendProtoString(buf[:0], 1, e.Code)
	m = appendProtoString(m, 2, e.Message)
	m = appendProtoString(m, 3, e.Field)
	return protowire.AppendBytes(openProto(dst, ServerError), appendProtoStrings(m, 4, e.Refused))
}

func (protoEncoding) Registered(dst []byte, r Registered) []byte {
	dst = openProto(dst, ServerRegistered)
	body := len(dst)
	dst = appendProtoStrings(dst, 1, r.Objects)
	dst = appendProtoString(dst, 2, r.Digest)
	return putLength(appendProtoString(dst, 3, r.Group), body)
}

func (protoEncoding) RegistrationFailed(dst []byte, r RegistrationFailed) []byte {
	dst = openProto(dst, ServerRegistrationFailed)
	body := len(dst)
	dst = appendProtoStrings(dst, 1, r.Objects)
	dst = appendProtoString(dst, 2, r.Code)
	dst = appendProtoInt(dst, 3, protoBool(r.Transient))
	return putLength(appendProtoString(dst, 4, r.Group), body)
}

func (protoEncoding) Object(k object.Key, s *object.State) []byte {
	dst := openProto(make([]byte, 0, objectSize(k, s)), ServerObject)
	return slices.Clip(protowire.AppendBytes(dst, protoObject(k, s)))
}

func protoObject(k object.Key, s *object.State) []byte {
	var buf [smallFrame]byte
	m := appendProtoString(buf[:0], 1, k.Group)
	m = appendProtoString(m, 2, k.Object)
	m = appendProtoInt(m, 3, int64(s.Version))
	if len(s.Payload) > 0 {
		m = protowire.AppendTag(m, 4, protowire.BytesType)
		m = protowire.AppendBytes(m, s.Payload)
	}
	m = appendProtoInt(m, 5, protoBool(!s.Known))
	if len(s.Payload) == 0 {
		return m
	}
	return appendProtoString(m, 6, s.ContentType)
}

// putLength inserts the length before a message that was appended from at on. It is for messages that may be long.
func putLength(dst []byte, at int) []byte {
	n := len(dst) - at
	var buf [10]byte
	length := protowire.AppendVarint(buf[:0], uint64(n))
	dst = append(dst, length...)
	copy(dst[at+len(length):], dst[at:at+n])
	copy(dst[at:], length)
	return dst
}

func appendProtoStrings(dst []byte, num protowire.Number, list []string) []byte {
	for _, s := range list {
		dst = protowire.AppendTag(dst, num, protowire.BytesType)
		dst = protowire.AppendString(dst, s)
	}
	return dst
}

func protoBool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
