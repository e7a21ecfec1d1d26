package fleet

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// request is a publish, encoded once and then changed in place for each use.
type request struct {
	bytes   []byte
	stamps  []int // where the times stand
	numbers []int // where the numbers of changing recipients stand
	streams []int // where the stream's number stands, in HTTP/2
	copies  int   // recipients
}

// prepare sets everything that differs from one use to the next.
func (r *request) prepare(due int64, stream uint32, next func() int) {
	for _, at := range r.stamps {
		putStamp(r.bytes[at:], due)
	}
	for _, at := range r.numbers {
		putNumber(r.bytes[at:], next())
	}
	for _, at := range r.streams {
		binary.BigEndian.PutUint32(r.bytes[at:], stream)
	}
}

// content is what a request carries, before it is put into a protocol.
type content struct {
	bytes           []byte
	stamps, numbers []int
	copies          int
	path, mediaType string
}

// httpRequest wraps content as a POST.
func httpRequest(t Target, c content) *request {
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		c.path, t.HTTP, t.Key, c.mediaType, len(c.bytes))
	r := &request{bytes: append(head, c.bytes...), copies: c.copies}
	for _, at := range c.stamps {
		r.stamps = append(r.stamps, len(head)+at)
	}
	for _, at := range c.numbers {
		r.numbers = append(r.numbers, len(head)+at)
	}
	return r
}

// grpcRequest wraps content as a unary call. No field that changes may lie across a border of frames: they stand at
// the beginning.
func grpcRequest(t Target, c content) *request {
	r := &request{bytes: appendRequest(nil, 0, t, c.path), copies: c.copies, streams: []int{5}}
	head := len(r.bytes)
	r.bytes = appendGRPCMessage(r.bytes, 0, c.bytes, true)
	place := func(at int) int {
		at += 5 // the message's length stands before it
		return head + at + h2Head*(1+at/h2MaxFrame)
	}
	for at := head; at < len(r.bytes); at += h2Head + h2MaxFrame {
		r.streams = append(r.streams, at+5)
	}
	for _, at := range c.stamps {
		r.stamps = append(r.stamps, place(at))
	}
	for _, at := range c.numbers {
		r.numbers = append(r.numbers, place(at))
	}
	return r
}

// oneJSON is a publish to one recipient.
func oneJSON(prefix string, size int) content {
	data, stamp := makeData(size)
	b := append([]byte(`{"to":"`), prefix...)
	number := len(b)
	b = append(append(b, "0000000"...), `","data":`...)
	return content{
		bytes: append(append(b, data...), '}'), stamps: []int{len(b) + stamp}, numbers: []int{number}, copies: 1,
		path: "/v1/notifications", mediaType: "application/json",
	}
}

// batchJSON is lines publishes to one recipient each.
func batchJSON(prefix string, size, lines int) content {
	all := content{path: "/v1/notifications/batch", mediaType: "application/x-ndjson", copies: lines}
	line := oneJSON(prefix, size)
	for range lines {
		at := len(all.bytes)
		all.bytes = append(append(all.bytes, line.bytes...), '\n')
		all.stamps = append(all.stamps, at+line.stamps[0])
		all.numbers = append(all.numbers, at+line.numbers[0])
	}
	return all
}

// manyJSON is one publish to several recipients.
func manyJSON(prefix string, size int, to []int) content {
	data, stamp := makeData(size)
	b := []byte(`{"data":`)
	stamp += len(b)
	b = append(append(b, data...), `,"to":[`...)
	for i, n := range to {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendRecipient(append(b, '"'), prefix, n), '"')
	}
	return content{
		bytes: append(b, "]}"...), stamps: []int{stamp}, copies: len(to),
		path: "/v1/notifications", mediaType: "application/json",
	}
}

// Field numbers of godwit.v1.PublishRequest.
const (
	publishTo   = 1
	publishData = 6
)

const publishPath = "/godwit.v1.Publisher/Publish"

// oneProto is a godwit.v1.PublishRequest to one recipient.
func oneProto(prefix string, size int) content {
	data, stamp := makeData(size)
	b := protowire.AppendTag(nil, publishTo, protowire.BytesType)
	b = protowire.AppendString(b, RecipientName(prefix, 0))
	number := len(b) - numberLen
	b = protowire.AppendTag(b, publishData, protowire.BytesType)
	b = protowire.AppendBytes(b, data)
	return content{
		bytes: b, stamps: []int{len(b) - len(data) + stamp}, numbers: []int{number}, copies: 1, path: publishPath,
	}
}

// manyProto is a godwit.v1.PublishRequest to several recipients.
func manyProto(prefix string, size int, to []int) content {
	data, stamp := makeData(size)
	b := protowire.AppendTag(nil, publishData, protowire.BytesType)
	b = protowire.AppendBytes(b, data)
	stamp += len(b) - len(data)
	for _, n := range to {
		b = protowire.AppendTag(b, publishTo, protowire.BytesType)
		b = protowire.AppendString(b, RecipientName(prefix, n))
	}
	return content{bytes: b, stamps: []int{stamp}, copies: len(to), path: publishPath}
}
