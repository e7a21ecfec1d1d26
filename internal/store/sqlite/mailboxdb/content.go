package mailboxdb

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notification"
)

// Content is stored as one version byte, the content type, then title, body, category and data, each behind its length
// as a varint. Everything after the content type is what two publishes of one id must agree in.
const contentVersion = 1

var errContent = errors.New("stored content is damaged")

// encodeContent returns what is stored of c and the hash by which a repeated id is compared.
func encodeContent(c *notification.Content) (body []byte, hash int64) {
	body = make([]byte, 0, 1+5*binary.MaxVarintLen32+len(c.ContentType)+len(c.Title)+len(c.Body)+len(c.Category)+len(c.Data))
	body = append(body, contentVersion)
	body = appendString(body, c.ContentType)
	hashed := len(body)
	body = appendString(body, c.Title)
	body = appendString(body, c.Body)
	body = appendString(body, c.Category)
	body = binary.AppendUvarint(body, uint64(len(c.Data)))
	body = append(body, c.Data...)
	sum := sha256.Sum256(body[hashed:])
	return body, int64(binary.BigEndian.Uint64(sum[:]))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func decodeContent(b []byte) (c notification.Content, err error) {
	if len(b) == 0 || b[0] != contentVersion {
		return c, errContent
	}
	b = b[1:]
	for _, s := range []*string{&c.ContentType, &c.Title, &c.Body, &c.Category} {
		var part []byte
		if part, b, err = cutPart(b); err != nil {
			return c, err
		}
		*s = string(part)
	}
	data, rest, err := cutPart(b)
	if err != nil || len(rest) > 0 {
		return c, errContent
	}
	if len(data) > 0 {
		c.Data = data
	}
	return c, nil
}

func cutPart(b []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errContent
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}

// idHash is the part of an index key that stands for an id. It must stay the same for ever, since it is stored, and
// be hard to aim at, since ids come from outside.
func idHash(app, id string) uint32 {
	var buf [2*notification.MaxNameBytes + 1]byte
	b := append(buf[:0], app...)
	b = append(b, '\n')
	b = append(b, id...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint32(sum[:])
}

func collapseHash(key string) uint32 {
	if key == "" {
		return 0
	}
	return max(1, idHash("", key))
}

func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMS is the reverse; what is not known (zero or negative) is the zero time.
func fromMS(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
