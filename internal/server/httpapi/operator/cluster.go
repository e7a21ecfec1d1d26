package operator

import (
	"context"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// ClusterView lists the nodes as this one sees them.
type ClusterView struct {
	Nodes  []NodeView  `json:"nodes"` // this one first
	Routes []RouteView `json:"routes,omitempty"`
	Leases []LeaseView `json:"leases,omitempty"`
	// Database is what all nodes share; nil: it is not PostgreSQL, or does not answer.
	Database *DatabaseView `json:"database,omitempty"`
}

// DatabaseView is the shared database.
type DatabaseView struct {
	OldestSnapshotS float64 `json:"oldest_snapshot_s"` // 0: nobody keeps dead rows
	HeldBy          string  `json:"held_by,omitempty"`
}

// StoreView is a node's work with the shared store in the last ten seconds. Fields are absent if they are not known.
type StoreView struct {
	CommitsPerS     *float64 `json:"commits_per_s,omitempty"`
	CopiesPerCommit *float64 `json:"copies_per_commit,omitempty"`
	StoreQueue      *int     `json:"store_queue,omitempty"`
	StoreAnsweredMS *int64   `json:"store_answered_ago_ms,omitempty"`
	LagMS           *int64   `json:"lag_ms,omitempty"` // of its hooks, sinks and sources
}

// NodeView is one node.
type NodeView struct {
	Name          string  `json:"name"`
	Boot          string  `json:"boot,omitempty"`
	Version       string  `json:"version"`
	State         string  `json:"state"` // self, alive, missing, draining
	Sessions      int     `json:"sessions"`
	UptimeS       float64 `json:"uptime_s"`
	ClockOffsetMS int64   `json:"clock_offset_ms"`
	HeardAgoMS    int64   `json:"heard_ago_ms"`
	Why           string  `json:"why,omitempty"`    // it is missing
	Backup        string  `json:"backup,omitempty"` // the node that keeps the names of its recipients, too
	StoreView
}

// RouteView is a connection with another node.
type RouteView struct {
	Boot         string `json:"boot"`
	Address      string `json:"address"`
	OutBytes     int64  `json:"out_bytes"`
	InBytes      int64  `json:"in_bytes"`
	PendingBytes int64  `json:"pending_bytes"`
}

// LeaseView is work that only one node does at a time.
type LeaseView struct {
	Name   string      `json:"name"`
	Holder string      `json:"holder"`
	Until  call.Moment `json:"until"`
}

// Cluster is GET /v1/cluster.
func (a *API) Cluster(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	v := ClusterView{}
	if a.Parts.Cluster != nil {
		var err error
		if v, err = a.Parts.Cluster(c.Ctx); err != nil {
			return err
		}
	}
	self := NodeView{Name: a.Node, Version: a.Version, State: "self", Sessions: a.Presence.Live(), UptimeS: time.Since(a.started).Seconds()}
	if len(v.Nodes) > 0 && v.Nodes[0].State == self.State {
		self.Boot, self.Backup, self.StoreView = v.Nodes[0].Boot, v.Nodes[0].Backup, v.Nodes[0].StoreView
		v.Nodes = v.Nodes[1:]
	}
	v.Nodes = append([]NodeView{self}, v.Nodes...)
	return c.Value(http.StatusOK, v)
}

// Clusters returns a node's view of the others; the first node may be itself, with only its boot.
type Clusters func(ctx context.Context) (ClusterView, error)

// ForgetNode is DELETE /v1/cluster/{node}.
func (a *API) ForgetNode(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	node := c.R.PathValue("node")
	if a.Parts.Forget == nil {
		return problem.NotFound.With("this server is one process, and no node is missing")
	}
	if err := a.Parts.Forget(c.Ctx, node); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "node taken off the list", "node", node, "by", c.Key.Key)
	return c.NoContent()
}
