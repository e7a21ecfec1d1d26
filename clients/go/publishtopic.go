package godwit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	pb "godwit.dev/godwit/api/godwitpb"
)

// MaxMessage is the maximum number of bytes of a topic's message.
const MaxMessage = 64 << 10

// PublishMessage sends a message to the topic's present subscribers: at most once, so it is not retried. It does not report who received
// the message. An empty content type means JSON if the data is valid JSON, else text if it is UTF-8, else bytes.
func (c *Client) PublishMessage(ctx context.Context, m Message) error {
	if err := checkPattern(m.Topic); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if m.ContentType == "" && len(m.Data) > 0 {
		m.ContentType = guessType(m.Data)
	}
	var err error
	if c.rpc != nil {
		_, err = callOnce(ctx, c, c.timeout, c.rpc.pub.PublishMessage, &pb.PublishMessageRequest{Topic: m.Topic, ContentType: m.ContentType, Data: m.Data})
	} else {
		_, err = c.once(ctx, request{method: http.MethodPost, path: pathTo("topics", m.Topic), body: m.Data, contentType: m.ContentType})
	}
	if err != nil {
		return fmt.Errorf("publish to topic %s: %w", m.Topic, err)
	}
	return nil
}

func guessType(data []byte) string {
	switch {
	case json.Valid(data):
		return "application/json"
	case utf8.Valid(data):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
