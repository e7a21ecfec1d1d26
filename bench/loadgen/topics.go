package loadgen

import (
	"bytes"
	"fmt"
)

// messageMark is the beginning of a message frame.
const messageMark = `{"message":`

func subscribeJSON(topic string) []byte {
	return fmt.Appendf(nil, `{"subscribe":{"topics":[%q]}}`, topic)
}

// readMessage parses a topic's message, or a gap.
func (w *webSocketWire) readMessage(b []byte) (a arrival, err error) {
	if bytes.HasPrefix(b, []byte(`{"gap":`)) {
		a.kind = gap
		var ok bool
		if a.seq, _, ok = number(b, `"gap":`); !ok {
			return a, errFrame
		}
		return a, nil
	}
	w.seq++
	return arrival{kind: notification, seq: w.seq, attempt: 1, due: findStamp(b)}, nil
}

// topicContent returns a publish to the topic, which reaches all subscribers.
func (c *PublishConfig) topicContent() content {
	data, stamp := makeData(c.Size)
	return content{
		bytes: data, stamps: []int{stamp}, copies: c.Recipients, path: "/v1/topics/" + c.Topic, mediaType: "application/json",
	}
}
