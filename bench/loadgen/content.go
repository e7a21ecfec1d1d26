package loadgen

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// StepChannel is the channel of escalation steps after the live one. It must be set up in the app.
const StepChannel = "webhook"

// oneJSON returns the body of a publish to one recipient.
func (c *PublishConfig) oneJSON() content {
	data, stamp := makeData(c.Size)
	b := append([]byte(`{"to":"`), c.Prefix...)
	number := len(b)
	b = append(append(b, "0000000"...), `",`...)
	b = append(c.stepsJSON(c.ackJSON(b)), `"data":`...)
	return content{
		bytes: append(append(b, data...), '}'), stamps: []int{len(b) + stamp}, numbers: []int{number}, copies: 1,
		path: "/v1/notifications", mediaType: "application/json",
	}
}

// ackJSON appends what else a publish says.
func (c *PublishConfig) ackJSON(b []byte) []byte {
	if c.AckNone {
		b = append(b, `"ack":"none",`...)
	}
	if c.Kept {
		b = append(b, `"inbox":true,`...)
	}
	return b
}

// stepsJSON appends an escalation whose steps become due after hours: if the notification is acknowledged before, the only cost is its row.
func (c *PublishConfig) stepsJSON(b []byte) []byte {
	if c.Steps == 0 {
		return b
	}
	b = append(b, `"escalate":[{"channel":"live"}`...)
	for i := range c.Steps {
		b = fmt.Appendf(b, `,{"channel":"%s","after":"%dh"}`, StepChannel, i+1)
	}
	return append(b, "],"...)
}

// batchJSON returns a body with c.Batch publishes to one recipient each.
func (c *PublishConfig) batchJSON() content {
	lines := max(c.Batch, 1)
	all := content{path: "/v1/notifications/batch", mediaType: "application/x-ndjson", copies: lines}
	line := c.oneJSON()
	for range lines {
		at := len(all.bytes)
		all.bytes = append(append(all.bytes, line.bytes...), '\n')
		all.stamps = append(all.stamps, at+line.stamps[0])
		all.numbers = append(all.numbers, at+line.numbers[0])
	}
	return all
}

// manyJSON returns the body of one publish to several recipients.
func (c *PublishConfig) manyJSON(to []int) content {
	data, stamp := makeData(c.Size)
	b := append(c.stepsJSON(c.ackJSON([]byte(`{`))), `"data":`...)
	stamp += len(b)
	b = append(append(b, data...), `,"to":[`...)
	for i, n := range to {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendRecipient(append(b, '"'), c.Prefix, n), '"')
	}
	return content{
		bytes: append(b, "]}"...), stamps: []int{stamp}, copies: len(to), deaf: c.countDeaf(to),
		path: "/v1/notifications", mediaType: "application/json",
	}
}

func (c *PublishConfig) countDeaf(to []int) (n int) {
	for _, r := range to {
		if c.deaf(r) {
			n++
		}
	}
	return n
}

// Field numbers and values of godwit.v1.PublishRequest.
const (
	publishTo   = 1
	publishData = 6
	publishAck  = 13

	ackModeNone = 3
)

const publishPath = "/godwit.v1.Publisher/Publish"

// oneProto returns a godwit.v1.PublishRequest to one recipient.
func (c *PublishConfig) oneProto() content {
	data, stamp := makeData(c.Size)
	b := protowire.AppendTag(nil, publishTo, protowire.BytesType)
	b = protowire.AppendString(b, RecipientName(c.Prefix, 0))
	number := len(b) - numberLen
	b = c.ackProto(b)
	b = protowire.AppendTag(b, publishData, protowire.BytesType)
	b = protowire.AppendBytes(b, data)
	return content{
		bytes: b, stamps: []int{len(b) - len(data) + stamp}, numbers: []int{number}, copies: 1, path: publishPath,
	}
}

func (c *PublishConfig) ackProto(b []byte) []byte {
	if c.AckNone {
		b = protowire.AppendTag(b, publishAck, protowire.VarintType)
		b = protowire.AppendVarint(b, ackModeNone)
	}
	return b
}

// manyProto returns a godwit.v1.PublishRequest to several recipients.
func (c *PublishConfig) manyProto(to []int) content {
	data, stamp := makeData(c.Size)
	b := c.ackProto(nil)
	b = protowire.AppendTag(b, publishData, protowire.BytesType)
	b = protowire.AppendBytes(b, data)
	stamp += len(b) - len(data)
	for _, n := range to {
		b = protowire.AppendTag(b, publishTo, protowire.BytesType)
		b = protowire.AppendString(b, RecipientName(c.Prefix, n))
	}
	return content{bytes: b, stamps: []int{stamp}, copies: len(to), deaf: c.countDeaf(to), path: publishPath}
}
