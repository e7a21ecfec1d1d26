package loadgen

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// Nammayatri is the transport of nammayatri's notification-service: a gRPC stream that carries acknowledgements to the server and payloads
// to the client.
const Nammayatri = "nammayatri"

// ClientID returns the UUID of client n. The same arguments always give the same UUID.
func ClientID(prefix string, n int) string {
	h := sha256.Sum256([]byte(RecipientName(prefix, n)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// ClientToken returns the token that identifies a client.
func ClientToken(client string) string { return "bench-" + client }

// nammayatriWire is grpcWire with other messages. The response headers mean that the server has accepted the session.
type nammayatriWire struct {
	grpcWire
	client string
}

func newNammayatriWire(t Target, client string) *nammayatriWire {
	return &nammayatriWire{grpcWire{target: t, http: newHTTP2Client()}, client}
}

func (w *nammayatriWire) begin() []byte {
	t := w.target
	t.Key = "" // which is for publishing
	b := appendRequest(w.http.begin(), sessionStream, t, "/notification_service.Notification/StreamPayload", [2]string{"token", ClientToken(w.client)})
	return appendGRPCMessage(b, sessionStream, nil, false) // an acknowledgement without an id, which nammayatri's app also sends first
}

func (w *nammayatriWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	w.sub = s
	used, send, err = w.http.parse(b, w)
	if w.credit >= h2Window/2 {
		send = appendH2Update(send, sessionStream, w.credit)
		w.credit = 0
	}
	return used, send, err
}

func (w *nammayatriWire) headers(stream uint32, fields []hpack.HeaderField, end bool) error {
	if !end {
		return w.sub.welcomed(nil)
	}
	return w.grpcWire.headers(stream, fields, end)
}

func (w *nammayatriWire) ack(dst []byte, ids [][]byte) []byte {
	var m []byte
	for _, id := range ids {
		m = protowire.AppendTag(m[:0], payloadID, protowire.BytesType)
		m = protowire.AppendBytes(m, id)
		dst = appendGRPCMessage(dst, sessionStream, m, false)
	}
	return dst
}

// Field numbers of NotificationPayload, and of NotificationAck.
const (
	payloadID    = 1
	payloadTitle = 3
)

// In a title, titleMark precedes the number of the notification among its client's.
const titleMark = "Ride "

func (w *nammayatriWire) read(b []byte) (a arrival, err error) {
	a.kind, a.due = notification, findStamp(b)
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return a, errFrame
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, value); n < 0 {
			return a, errFrame
		}
		b = value[n:]
		switch num {
		case payloadID:
			a.id, _ = protowire.ConsumeBytes(value)
		case payloadTitle:
			title, _ := protowire.ConsumeBytes(value)
			for _, c := range bytes.TrimPrefix(title, []byte(titleMark)) {
				if c < '0' || c > '9' {
					return a, errFrame
				}
				a.seq = a.seq*10 + uint64(c-'0')
			}
		}
	}
	if a.seq == 0 || len(a.id) == 0 {
		return a, errFrame
	}
	return a, nil
}
