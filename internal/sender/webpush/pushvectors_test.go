package webpush

import (
	"testing"

	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/sendertest"
)

func TestMessagesAreThoseOfTheVectors(t *testing.T) {
	sendertest.Vectors(t, "webpush", func(r *push.Request) ([]byte, error) { return encodePayload(r, "", Defaults{}) })
}
