package webpush

import (
	"testing"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
)

func TestMessagesAreThoseOfTheVectors(t *testing.T) {
	sendertest.Vectors(t, "webpush", func(r *push.Request) ([]byte, error) { return encodePayload(r, "", Defaults{}) })
}
