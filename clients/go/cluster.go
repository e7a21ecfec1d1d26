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
