// Package content encodes the content of a notification for stores of mailboxes, the same in every database: one version byte, the content
// type, then title, body, category and data, each after its length as a varint. Two publishes with one id must agree in everything after
// the content type, unless the content has a key for that comparison. Version 2 ends with the alternative content for push channels, which
// servers of previous versions cannot read. Version 3 ends with that, empty where there is none, and with how inboxes keep the notification: the
// time in minutes as a varint, and its actions.
package content

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"godwit.dev/godwit/internal/notify/notification"
)

const (
	version   = 1
	withPush  = 2
	withInbox = 3
)

var errDamaged = errors.New("stored content is damaged")

// Encode returns the stored form of c, and the hash for comparing publishes with the same id.
func Encode(c *notification.Content) (body []byte, hash int64) {
	body = make([]byte, 0, 1+6*binary.MaxVarintLen32+len(c.ContentType)+len(c.Title)+len(c.Body)+len(c.Category)+len(c.Data)+len(c.Push))
	switch {
	case c.Inbox != nil:
		body = append(body, withInbox)
	case c.Push != nil:
		body = append(body, withPush)
	default:
		body = append(body, version)
	}
	body = appendString(body, c.ContentType)
	hashed := len(body)
	body = appendString(body, c.Title)
	body = appendString(body, c.Body)
	body = appendString(body, c.Category)
	body = binary.AppendUvarint(body, uint64(len(c.Data)))
	body = append(body, c.Data...)
	says := body[hashed:]
	if c.Key != "" {
		says = []byte(c.Key)
	}
	sum := sha256.Sum256(says)
	if c.Push != nil || c.Inbox != nil {
		body = append(binary.AppendUvarint(body, uint64(len(c.Push))), c.Push...)
	}
	if c.Inbox != nil {
		body = appendInbox(body, c.Inbox)
	}
	return body, int64(binary.BigEndian.Uint64(sum[:]))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Decode is the inverse of Encode. Data and Push share the memory of b.
func Decode(b []byte) (c notification.Content, err error) {
	if len(b) == 0 || b[0] < version || b[0] > withInbox {
		return c, errDamaged
	}
	form := b[0]
	b = b[1:]
	for _, s := range []*string{&c.ContentType, &c.Title, &c.Body, &c.Category} {
		var part []byte
		if part, b, err = cutPart(b); err != nil {
			return c, err
		}
		*s = string(part)
	}
	data, rest, err := cutPart(b)
	if err == nil && form != version {
		c.Push, rest, err = cutPart(rest)
	}
	if err == nil && form == withInbox {
		if len(c.Push) == 0 {
			c.Push = nil
		}
		c.Inbox, rest, err = cutInbox(rest)
	}
	if err != nil || len(rest) > 0 {
		return c, errDamaged
	}
	if len(data) > 0 {
		c.Data = data
	}
	return c, nil
}

// Category reads only the category of a content. It returns "" if b is a beginning that ends before the category.
func Category(b []byte) string {
	var part []byte
	var err error
	rest := b[min(1, len(b)):]
	for range categoryPart {
		if part, rest, err = cutPart(rest); err != nil {
			return ""
		}
	}
	return string(part)
}

// categoryPart is the number of the category among the parts of a content.
const categoryPart = 4

func cutPart(b []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errDamaged
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}
