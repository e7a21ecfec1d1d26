// Package httphead has the rules for HTTP headers from callers and workers: which of a caller's headers a worker gets, and which of a
// worker's headers a browser gets.
package httphead

import "strings"

// Fold writes a header's name as CGI and WSGI do (RFC 3875, section 4.1.18): letters without their case, and one character for everything
// except letters and digits. Programs behind such an interface cannot distinguish names with the same folded form.
func Fold(name string) string {
	var short [64]byte // longer than every name in the tables below
	return string(fold(short[:0], name))
}

func fold(dst []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		default:
			c = '-'
		}
		dst = append(dst, c)
	}
	return dst
}

// names is a set of folded names. A name that ends in "*" stands for all names with that beginning.
type names struct {
	exact    map[string]bool
	prefixes []string
}

func setOf(list string) names {
	n := names{exact: make(map[string]bool)}
	for name := range strings.FieldsSeq(list) {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			n.prefixes = append(n.prefixes, prefix)
		} else {
			n.exact[name] = true
		}
	}
	return n
}

// has reports whether a name is in the set, in any spelling.
func (n *names) has(name string) bool {
	var short [64]byte
	folded := fold(short[:0], name)
	if n.exact[string(folded)] { // does not allocate
		return true
	}
	for _, p := range n.prefixes {
		if len(folded) >= len(p) && string(folded[:len(p)]) == p {
			return true
		}
	}
	return false
}

// hopByHop are headers of a single connection (RFC 9110, section 7.6.1), and Content-Length, which follows from the body.
var hopByHop = setOf(`connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade
	http2-settings content-length`)

// connectionOptions are the further hop-by-hop headers that a Connection header lists.
func connectionOptions(h map[string][]string) map[string]bool {
	var listed map[string]bool
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if listed == nil {
				listed = make(map[string]bool)
			}
			listed[Fold(strings.TrimSpace(name))] = true
		}
	}
	return listed
}
