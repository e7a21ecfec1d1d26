package form

import (
	"cmp"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Session is the JSON form of a live session.
type Session struct {
	ID          string      `json:"id"`
	Node        string      `json:"node"`
	Device      string      `json:"device"`
	Gateway     string      `json:"gateway"`
	ConnectedAt call.Moment `json:"connected_at"`
	LastSeen    call.Moment `json:"last_seen"`
	Unacked     int         `json:"unacked"`
	Behind      bool        `json:"behind"`
}

// Completeness returns the member of an answer about presence: "partial" if a node did not answer, else empty.
func Completeness(partial bool) string {
	if partial {
		return "partial"
	}
	return ""
}

// ViewSession returns the JSON form of a session on node.
func ViewSession(s session.Info, node string) Session {
	return Session{
		ID: s.ID, Node: cmp.Or(s.Node, node), Device: s.Device, Gateway: s.Gateway, ConnectedAt: call.Moment(s.ConnectedAt),
		LastSeen: call.Moment(s.LastSeen), Unacked: s.Unacked, Behind: s.Behind,
	}
}
