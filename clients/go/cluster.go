package godwit

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Cluster describes the nodes of a server, as one of them sees them.
type Cluster struct {
	Nodes  []Node  `json:"nodes"` // the one that answers first
	Routes []Route `json:"routes,omitempty"`
	Leases []Lease `json:"leases,omitempty"`
}

// Node is one process of a server.
type Node struct {
	Name          string  `json:"name"`
	Boot          string  `json:"boot,omitempty"` // of this start; empty of one that is alone
	Version       string  `json:"version"`
	State         string  `json:"state"` // "self", "alive", "missing" or "draining"
	Sessions      int     `json:"sessions"`
	UptimeS       float64 `json:"uptime_s"`
	ClockOffsetMS int64   `json:"clock_offset_ms"` // its clock less the answering node's, the way of a message included
	HeardAgoMS    int64   `json:"heard_ago_ms"`    // 0: never, or itself
	Why           string  `json:"why,omitempty"`   // the known reason for a missing node
}

// Route is a connection of the answering node with another.
type Route struct {
	Boot         string `json:"boot"`
	Address      string `json:"address"`
	OutBytes     int64  `json:"out_bytes"`
	InBytes      int64  `json:"in_bytes"`
	PendingBytes int64  `json:"pending_bytes"` // that wait to be written
}

// Lease is work that only one node does at a time.
type Lease struct {
	Name   string    `json:"name"`
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

// ForgetNode removes a node from the list that was lost for good. It needs role admin.
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
