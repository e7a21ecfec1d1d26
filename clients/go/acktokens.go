package godwit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// AckEvent is the event of a push message that is reported.
type AckEvent string

// What AckTokens may say.
const (
	AckShown     AckEvent = "shown" // settles only notifications published with that option
	AckClicked   AckEvent = "clicked"
	AckDismissed AckEvent = "dismissed"
)

// maxAckTokens is how many tokens the server takes in a request.
const maxAckTokens = 100

// AckTokens acknowledges what came by push with the tokens that it brought (godwit_ack); nothing else is needed, no token
// of a client. The event may be empty. It returns how many copies were settled by it: none for those that were settled
// before. Only if none of the tokens is good there is an *Error, with status 401.
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
