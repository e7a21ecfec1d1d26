package form

import (
	"cmp"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Session is a live session as it is read.
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

// Completeness is what answers say of the presence in them: "partial" if not every node could be asked, else nothing.
func Completeness(partial bool) string {
	if partial {
		return "partial"
	}
	return ""
}

// ViewSession shows a session of the node.
func ViewSession(s session.Info, node string) Session {
	return Session{
		ID: s.ID, Node: cmp.Or(s.Node, node), Device: s.Device, Gateway: s.Gateway, ConnectedAt: call.Moment(s.ConnectedAt),
		LastSeen: call.Moment(s.LastSeen), Unacked: s.Unacked, Behind: s.Behind,
	}
}
