package godwit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// AckEvent is the event to report for a push message.
type AckEvent string

// What AckTokens may say.
const (
	AckShown     AckEvent = "shown" // settles only notifications published with that option
	AckClicked   AckEvent = "clicked"
	AckDismissed AckEvent = "dismissed"
)

// maxAckTokens is the most tokens that the server accepts in one request.
const maxAckTokens = 100

// AckTokens acknowledges notifications that arrived by push, with the tokens in their messages (godwit_ack). These are the only credential:
// no client token is needed. The event may be empty. AckTokens returns the number of copies that it settled; copies settled before do not
// count. Only if none of the tokens is valid, it returns an *Error with status 401.
func (c *Client) AckTokens(ctx context.Context, event AckEvent, tokens ...string) (acked int, err error) {
	for some := range slices.Chunk(tokens, maxAckTokens) {
		body := struct {
			Tokens []string `json:"tokens"`
			Event  AckEvent `json:"event,omitempty"`
		}{some, event}
		var answer struct{ Acked int }
		if err := c.doJSON(ctx, request{method: http.MethodPost, path: "/v1/acks"}, body, &answer); err != nil {
			return acked, fmt.Errorf("acknowledge by token: %w", err)
		}
		acked += answer.Acked
	}
	return acked, nil
}
