package object

import "strings"

// Allowed reports whether a token's list of patterns lets a client register for an object. A nil list allows everything, an empty one
// nothing. A pattern is compared with the object's name, or with "group/object" if it contains a slash, token by token between dots. "*"
// stands for any run of bytes within a token ("camera-*"), a final ">" for one or more whole tokens ("fw.>", ">").
func Allowed(patterns []string, k Key) bool {
	if patterns == nil {
		return true
	}
	for _, p := range patterns {
		if group, object, ok := strings.Cut(p, "/"); ok {
			if matches(group, k.Group) && matches(object, k.Object) {
				return true
			}
		} else if matches(p, k.Object) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	for {
		p, morePattern, pMore := strings.Cut(pattern, ".")
		if p == ">" && !pMore {
			return name != ""
		}
		n, moreName, nMore := strings.Cut(name, ".")
		if !glob(p, n) || pMore != nMore {
			return false
		}
		if !pMore {
			return true
		}
		pattern, name = morePattern, moreName
	}
}

// glob matches one token. A token "*" needs at least one byte.
func glob(p, s string) bool {
	if p == "*" {
		return s != ""
	}
	head, rest, wild := strings.Cut(p, "*")
	if !wild {
		return p == s
	}
	s, ok := strings.CutPrefix(s, head)
	if !ok {
		return false
	}
	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], more
	}
}
