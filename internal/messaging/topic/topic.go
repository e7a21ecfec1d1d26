// Package topic defines the names of publish/subscribe and of requests: names of dot-separated tokens, patterns that
// match many of them, which patterns contain others, and how names become subjects of the bus. It has no connections.
//
// A name is "rides.oslo.new": 1 to 16 tokens with dots between, 255 bytes at most. A token consists of A-Z a-z 0-9 _ : @
// + -; any other byte, such as a dot, is written %2E (EncodeToken). A pattern is a name in which a whole token may be
// "*", which matches any one token, and the last one ">", which matches one or more. Topics and the subjects of requests
// are names of the same kind in two spaces: "t." and "r." before them (Topic, Request).
package topic

import (
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of names and patterns. They are part of the public contract.
const (
	MaxTokens = 16
	MaxBytes  = 255
)

// CheckName applies the rules for names. A returned error is a *notification.FieldError of that field.
func CheckName(field, name string) error { return check(field, name, false) }

// CheckPattern applies the rules for patterns; every valid name is a valid pattern. A returned error is a *notification.FieldError of that
// field.
func CheckPattern(field, pattern string) error { return check(field, pattern, true) }

func check(field, s string, wild bool) error {
	switch {
	case s == "":
		return notification.BadField(field, "is required")
	case len(s) > MaxBytes:
		return notification.BadField(field, "has %d bytes; at most %d are allowed", len(s), MaxBytes)
	}
	for n, more := 1, true; more; n++ {
		var tok string
		if tok, s, more = strings.Cut(s, "."); n > MaxTokens {
			return notification.BadField(field, "has more than %d tokens", MaxTokens)
		}
		switch {
		case tok == "":
			return notification.BadField(field, "has an empty token; write tokens with one dot between them, as in rides.oslo")
		case wild && tok == "*":
		case wild && tok == ">" && !more:
		case wild && tok == ">":
			return notification.BadField(field, "has > before its end; it stands for the rest and must be the last token")
		default:
			if problem := tokenProblem(tok, wild); problem != "" {
				return notification.BadField(field, "%s", problem)
			}
		}
	}
	return nil
}

// tokenProblem describes the fault of a token; "": there is none.
func tokenProblem(tok string, wild bool) string {
	for i := 0; i < len(tok); i++ {
		switch c := tok[i]; {
		case tokenByte[c]:
		case c == '%':
			if !isEscape(tok[i:]) {
				return "contains a % that is not followed by two upper-case hex digits of a byte which needs them, as in %2E"
			}
			i += 2
		case wild && (c == '*' || c == '>'):
			return fmt.Sprintf("has %.130q; a wildcard must be a token of its own", tok)
		default:
			return fmt.Sprintf("contains %q; allowed in a token are A-Z a-z 0-9 _ : @ + -", c)
		}
	}
	return ""
}

// Match reports whether a pattern matches a name. Both must be valid.
func Match(pattern, name string) bool { return Within(name, pattern) }

// Within reports whether allowed matches every name that pattern matches: "rides.oslo.*" is within "rides.>", but "rides.>" is not within
// "rides.*". Both must be valid.
func Within(pattern, allowed string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		a, restA, moreA := strings.Cut(allowed, ".")
		switch {
		case a == ">":
			return true
		case p == ">", a != "*" && a != p, moreP != moreA:
			return false
		case !moreP:
			return true
		}
		pattern, allowed = restP, restA
	}
}

// WithinAny reports whether a single one of the patterns in allowed matches all names of pattern. A pattern that only several of them cover
// together is not allowed: a holder of "rides.a" and "rides.b" may subscribe to each, but not to "rides.*".
func WithinAny(pattern string, allowed []string) bool {
	for _, a := range allowed {
		if Within(pattern, a) {
			return true
		}
	}
	return false
}

// Fill replaces {sub} in a pattern with a recipient, as one token or a part of one, whatever bytes the recipient has: a recipient "a.b"
// gets no topics of "a" or "b".
func Fill(pattern, recipient string) string {
	return strings.ReplaceAll(pattern, "{sub}", EncodeToken(recipient))
}
