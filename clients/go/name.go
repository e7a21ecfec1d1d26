package godwit

import (
	"fmt"
	"net/url"
	"strings"
)

const maxName = 128 // maximum bytes of an app, recipient, id, group, object, device or queue

// checkName applies the rules for names, so that an invalid name gives a clear error here instead of a 404 from the server.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if len(name) > maxName {
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", what, len(name), maxName)
	}
	if name == "." || name == ".." {
		return fmt.Errorf("%s is %q, which no name is: URLs take it for a step to another path", what, name)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == ':', c == '@', c == '+', c == '-':
		default:
			return fmt.Errorf("%s %q contains %q; allowed are A-Z a-z 0-9 . _ : @ + -", what, name, name[i:i+1])
		}
	}
	return nil
}

// pathTo returns a path of the API with the parts escaped.
func pathTo(parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// checkPath rejects paths with parts that would make the request go to another path.
func checkPath(path string) error {
	rest, ours := strings.CutPrefix(path, "/v1/")
	for part := range strings.SplitSeq(rest, "/") {
		switch name, err := url.PathUnescape(part); {
		case err != nil:
			return fmt.Errorf("path %q: %w", path, err)
		case name == "." || name == "..":
			return fmt.Errorf("path %q has the name %q, which no name is: URLs take it for a step to another path", path, name)
		case name == "" && ours:
			return fmt.Errorf("path %q has an empty name", path)
		}
	}
	return nil
}

func (k objectKey) check() error {
	if err := checkName("group", k.group); err != nil {
		return err
	}
	return checkName("object", k.object)
}

// Limits of topics and patterns.
const (
	maxTopicBytes  = 255
	maxTopicTokens = 16
)

// checkPattern applies the rules for topics and topic patterns.
func checkPattern(pattern string) error {
	tokens := strings.Split(pattern, ".")
	if len(pattern) > maxTopicBytes || len(tokens) > maxTopicTokens {
		return fmt.Errorf("topic %.300q has more than %d bytes or %d tokens", pattern, maxTopicBytes, maxTopicTokens)
	}
	for i, token := range tokens {
		switch {
		case token == "":
			return fmt.Errorf("topic %q has an empty token", pattern)
		case token == "*", token == ">" && i == len(tokens)-1:
		default:
			for j := range len(token) {
				if c := token[j]; c != '%' && (c == '.' || checkName("", token[j:j+1]) != nil) {
					return fmt.Errorf("topic %q contains %q; allowed in a token are A-Z a-z 0-9 _ : @ + -, and wildcards stand alone", pattern, token[j:j+1])
				}
			}
		}
	}
	return nil
}
