package inboxes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// places are what a cursor says: where the next page begins, and which was the newest item when the first page was read. So a cursor also
// says what its holder has shown, and what came later stays unseen when that is marked.
type places struct {
	before, top uint64 // before 0: everything was shown
}

const ownerBytes = 6

// mark tells owners apart, so that no cursor is taken for another's.
func (o *owner) mark(what string) []byte {
	sum := sha256.Sum256([]byte(o.app + "\n" + o.recipient + "\n" + what))
	return sum[:ownerBytes]
}

func (o *owner) cursor(p places) string {
	b := append(make([]byte, 0, ownerBytes+2*binary.MaxVarintLen64), o.mark("cursor")...)
	b = binary.AppendUvarint(b, p.before)
	b = binary.AppendUvarint(b, p.top)
	return base64.RawURLEncoding.EncodeToString(b)
}

// place reads a cursor, which is of a field.
func (o *owner) place(text, field string) (p places, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	bad := notification.BadField(field, "is not a cursor of this recipient's inbox: pass next_cursor or until of a page")
	if err != nil || len(b) < ownerBytes || string(b[:ownerBytes]) != string(o.mark("cursor")) {
		return p, bad
	}
	b = b[ownerBytes:]
	for _, to := range []*uint64{&p.before, &p.top} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return p, bad
		}
		*to, b = v, b[n:]
	}
	if len(b) > 0 || p.before > p.top {
		return p, bad
	}
	return p, nil
}

// etag names the answer to a query in one revision of an inbox.
func etag(revision uint64, o owner, query string) string {
	return `"` + strconv.FormatUint(revision, 36) + "-" + base64.RawURLEncoding.EncodeToString(o.mark(query)) + `"`
}

// revisionOf returns the revision in the header If-None-Match if it is of this query; else 0.
func revisionOf(header string, o owner, query string) uint64 {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		text, _, _ := strings.Cut(strings.Trim(tag, `"`), "-")
		if revision, err := strconv.ParseUint(text, 36, 64); err == nil && tag == etag(revision, o, query) {
			return revision
		}
	}
	return 0
}
