package frame

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

// MaxPatterns is the most patterns of one frame, and of a session. It is part of the public contract.
const MaxPatterns = 256

func readPatterns(v json.RawMessage, into *Client) string {
	list, problem := texts(v)
	if len(list) > MaxPatterns {
		return fmt.Sprintf("has more than %d entries", MaxPatterns)
	}
	for _, p := range list {
		into.Patterns = append(into.Patterns, []byte(p))
	}
	return problem
}

func readQueue(v json.RawMessage, into *Client) string {
	s, problem := text(v)
	into.Queue = []byte(s)
	return problem
}

func (c *Client) setPatternBytes(field string, num protowire.Number, v []byte) error {
	switch {
	case num == 1 && len(c.Patterns) == MaxPatterns:
		return tooMany(c.Kind, field, MaxPatterns)
	case num == 1:
		c.Patterns = append(c.Patterns, v)
		return checkText(c.Kind, field, v)
	case num == 2:
		c.Queue = v
		return checkText(c.Kind, "queue", v)
	}
	return nil
}

// checkPatterns applies the rules of frames that name patterns.
func (c *Client) checkPatterns(field string) error {
	if len(c.Patterns) == 0 {
		return badField(c.Kind, field, "is required")
	}
	for _, p := range c.Patterns {
		var fe *notification.FieldError
		if errors.As(topic.CheckPattern(field, string(p)), &fe) {
			return badField(c.Kind, field, fe.Problem)
		}
	}
	if len(c.Queue) > 0 && !isName(c.Queue) {
		return nameError(c.Kind, "queue", string(c.Queue))
	}
	return nil
}

// PatternsError names the refused patterns of a subscribe or serve frame, and the reason: "subscribe: why a, b and 3 more". The other
// patterns of the frame were accepted.
func PatternsError(k Kind, code, why string, patterns []string) *Error {
	const named = 3 // how many the text names; the list has all
	text := strings.Join(patterns[:min(len(patterns), named)], ", ")
	if more := len(patterns) - named; more > 0 {
		text = fmt.Sprintf("%s and %d more", text, more)
	}
	field := "topics"
	if k == KindServe {
		field = "subjects"
	}
	return &Error{Code: code, Message: k.String() + ": " + why + " " + text, Field: field, Refused: patterns}
}
