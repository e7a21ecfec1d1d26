package jetstream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// maxBody is the maximum number of bytes of a message: that of a request over HTTP.
const maxBody = 256 << 10

// message is a delivered message.
type message struct {
	jetstream.Msg
	seq   uint64 // of the stream
	tries int    // deliveries, with this one
	at    time.Time
}

// entry is what a message asks for.
func (f *feed) entry(m *message) source.Entry {
	body := m.Data()
	e := source.Entry{From: f.at.Stream + " " + strconv.FormatUint(m.seq, 10), ID: f.idOf(m), Version: f.versionOf(m.seq), Last: true, Body: body, Text: body}
	switch {
	case len(body) > maxBody:
		e.Wrong = fmt.Errorf("the message has %d bytes; at most %d are allowed", len(body), maxBody)
	case len(body) == 0:
		e.Wrong, e.Text = errors.New("the message is empty"), []byte{}
	}
	return e
}

// maxOwnID is the longest id of a message that becomes the notification's own: the number of a list's member has room behind it.
const maxOwnID = notification.MaxNameBytes - 4

// idOf is the id of a message's notification: the same whenever it is delivered, and that of the publisher if the message has one.
func (f *feed) idOf(m *message) string {
	own := m.Headers().Get(jetstream.MsgIDHeader)
	if own != "" && len(own) <= maxOwnID && notification.CheckName("id", own) == nil {
		return own
	}
	if own != "" {
		return "js-" + digest(f.at.Stream, "id", own)
	}
	return "js-" + digest(f.at.Stream, f.at.Created.UTC().Format(time.RFC3339Nano), strconv.FormatUint(m.seq, 10))
}

// digest is a short text that differs for other parts.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(append([]byte(part), 0))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Versions of objects grow with the sequence, and from a stream to one that is made later under its name: it may have 140,000 messages a
// second. They stay below 2^53, which programs in JavaScript can count to, until 2083.
const (
	versionsOfMessage = 32      // more than source.Entry asks for
	versionsOfMinute  = 1 << 28 //
)

var versionsBegin = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func (f *feed) versionOf(seq uint64) object.Version {
	minutes := max(f.at.Created.Sub(versionsBegin)/time.Minute, 0)
	return object.Version(minutes)*versionsOfMinute + object.Version(seq)*versionsOfMessage // a sequence that large takes centuries
}

// recipients returns to whom a message is published, as far as it can be read.
func recipients(body []byte) (names []string) {
	type publish struct{ To json.RawMessage }
	var list []publish
	if json.Unmarshal(body, &list) != nil {
		list = make([]publish, 1)
		if json.Unmarshal(body, &list[0]) != nil {
			return nil
		}
	}
	for _, p := range list {
		var one string
		var several []string
		if json.Unmarshal(p.To, &one) == nil {
			names = append(names, one)
		} else if json.Unmarshal(p.To, &several) == nil {
			names = append(names, several...)
		}
	}
	return names
}
