package godwit

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Cluster describes the nodes of a cluster as seen by one of them.
type Cluster struct {
	Nodes  []Node  `json:"nodes"` // the one that answers first
	Routes []Route `json:"routes,omitempty"`
	Leases []Lease `json:"leases,omitempty"`
	// Database is what all nodes share; nil: it is not PostgreSQL, or does not answer.
	Database *Database `json:"database,omitempty"`
}

// Database is the PostgreSQL database that the nodes share.
type Database struct {
	OldestSnapshotS float64 `json:"oldest_snapshot_s"` // for how long somebody has kept it from removing dead rows; 0: nobody does
	HeldBy          string  `json:"held_by,omitempty"`
}

// Node is one process of a server.
type Node struct {
	Name          string  `json:"name"`
	Boot          string  `json:"boot,omitempty"` // identifies this start of the node; empty if the node is not in a cluster
	Version       string  `json:"version"`
	State         string  `json:"state"` // "self", "alive", "missing" or "draining"
	Sessions      int     `json:"sessions"`
	UptimeS       float64 `json:"uptime_s"`
	ClockOffsetMS int64   `json:"clock_offset_ms"` // its clock minus the answering node's, including the transit time of a message
	HeardAgoMS    int64   `json:"heard_ago_ms"`    // 0: never, or itself
	Why           string  `json:"why,omitempty"`   // the known reason for a missing node

	// Backup is the node that keeps the names of its recipients, too, and reports them offline if this one dies; empty: none.
	Backup string `json:"backup,omitempty"`
	// LagMS is the age of the oldest event or entry that waits for a hook, sink or source of the node; nil: not known.
	LagMS *int64 `json:"lag_ms,omitempty"`

	// Work with the shared store in the last ten seconds; nil: not known.
	CommitsPerS     *float64 `json:"commits_per_s,omitempty"`
	CopiesPerCommit *float64 `json:"copies_per_commit,omitempty"`
	StoreQueue      *int     `json:"store_queue,omitempty"`           // operations that wait for a commit
	StoreAnsweredMS *int64   `json:"store_answered_ago_ms,omitempty"` // time since the database last answered the node
}

// Route is a connection between the answering node and another.
type Route struct {
	Boot         string `json:"boot"`
	Address      string `json:"address"`
	OutBytes     int64  `json:"out_bytes"`
	InBytes      int64  `json:"in_bytes"`
	PendingBytes int64  `json:"pending_bytes"` // that wait to be written
}

// Lease is a task that only one node performs at a time.
type Lease struct {
	Name   string    `json:"name"`
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

// ForgetNode removes a node that was lost for good from the list. It needs role admin.
func (c *Client) ForgetNode(ctx context.Context, name string) error {
	if err := c.doJSON(ctx, request{method: http.MethodDelete, path: pathTo("cluster", name)}, nil, nil); err != nil {
		return fmt.Errorf("forget node %s: %w", name, err)
	}
	return nil
}

// Cluster lists the nodes. It needs role read.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var v Cluster
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: "/v1/cluster"}, nil, &v); err != nil {
		return v, fmt.Errorf("list the nodes: %w", err)
	}
	return v, nil
}
