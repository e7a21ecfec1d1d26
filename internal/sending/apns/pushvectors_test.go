package apns

import (
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest"
)

func TestMessagesAreThoseOfTheVectors(t *testing.T) {
	sendertest.Vectors(t, "apns", encodePayload)
}
