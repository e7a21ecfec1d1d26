package fcm

import (
	"encoding/json"
	"testing"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
)

func TestMessagesAreThoseOfTheVectors(t *testing.T) {
	sendertest.Vectors(t, "fcm", func(r *push.Request) ([]byte, error) { return json.Marshal(data(r)) })
}
