package topic

import (
	"slices"
	"strings"
)

// Tree finds the values whose pattern matches a name, without comparing the other patterns. The zero value is empty.
type Tree[T comparable] struct {
	next map[string]*Tree[T] // by token; wildcards are tokens as they are written
	here []T
}

// Insert adds a value under a pattern.
func (t *Tree[T]) Insert(pattern string, v T) {
	for tok := range strings.SplitSeq(pattern, ".") {
		if t.next == nil {
			t.next = make(map[string]*Tree[T])
		}
		if t.next[tok] == nil {
			t.next[tok] = &Tree[T]{}
		}
		t = t.next[tok]
	}
	t.here = append(t.here, v)
}

// Remove removes a value that was inserted under the pattern.
func (t *Tree[T]) Remove(pattern string, v T) {
	tok, rest, more := strings.Cut(pattern, ".")
	next := t.next[tok]
	switch {
	case next == nil:
		return
	case more:
		next.Remove(rest, v)
	default:
		next.here = slices.DeleteFunc(next.here, func(o T) bool { return o == v })
	}
	if len(next.here) == 0 && len(next.next) == 0 {
		delete(t.next, tok)
	}
}

// Match calls visit with each value whose pattern matches a name.
func (t *Tree[T]) Match(name string, visit func(T)) {
	tok, rest, more := strings.Cut(name, ".")
	if all := t.next[">"]; all != nil {
		all.visit(visit)
	}
	for _, key := range [...]string{tok, "*"} {
		switch next := t.next[key]; {
		case next == nil:
		case more:
			next.Match(rest, visit)
		default:
			next.visit(visit)
		}
	}
}

func (t *Tree[T]) visit(visit func(T)) {
	for _, v := range t.here {
		visit(v)
	}
}
