package session

import "godwit.dev/godwit/internal/access"

// Rights are the patterns that a client's credential allows.
type Rights struct {
	Objects       []string // objects that it may register for; nil: all
	Topics, Serve []string // topics that it may subscribe to, and subjects that it may serve; nil: none
}

// CanSubscribe reports whether the client may subscribe to all topics of a pattern. r may be nil.
func (r *Rights) CanSubscribe(pattern string) bool {
	return r != nil && access.Rights{Subscribe: r.Topics}.CanSubscribe(pattern)
}

// CanServe reports whether the client may serve all subjects of a pattern. r may be nil.
func (r *Rights) CanServe(pattern string) bool {
	return r != nil && access.Rights{Serve: r.Serve}.CanServe(pattern)
}

// AllObjects reports whether the client may register for every object.
func (r *Rights) AllObjects() bool { return r == nil || r.Objects == nil }

// grants are the usual rights, each without limits. They take one byte of a session, which then needs no side for its rights.
type grants uint8

const (
	allTopics grants = 1 << iota
	allServe
)

var everything = []string{">"}

// common are the rights of clients, by their grants.
var common = [...]*Rights{
	0: nil, allTopics: {Topics: everything}, allServe: {Serve: everything}, allTopics | allServe: {Topics: everything, Serve: everything},
}

func grantsOf(c access.Client) (g grants) {
	if isAll(c.Topics) {
		g |= allTopics
	}
	if isAll(c.Serve) {
		g |= allServe
	}
	return g
}

// rights returns a client's rights. special: they are not one of the sets in common, and have to be stored.
func rights(c access.Client) (r *Rights, special bool) {
	g := grantsOf(c)
	if c.Objects == nil && (c.Topics == nil || g&allTopics != 0) && (c.Serve == nil || g&allServe != 0) {
		return common[g], false
	}
	return &Rights{Objects: c.Objects, Topics: c.Topics, Serve: c.Serve}, true
}

func isAll(patterns []string) bool { return len(patterns) == 1 && patterns[0] == everything[0] }
