package redisserver

import (
	"fmt"
	"strings"
	"time"
)

// slots is the number of slots of a cluster.
const slots = 16384

// nodeTimeout is how long a server may be silent until the others take it for dead. While the cluster forms it is short, since servers
// repeat by it what was not answered. Then it is far longer than a busy machine lets a server wait: the masters change only as Promote says.
const (
	formingTimeout = time.Second
	nodeTimeout    = 10 * time.Minute
)

// Cluster is a group of servers that share the slots.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // one per master, or none
}

// StartCluster starts masters that share the slots evenly. If replicas is true, each gets a replica that takes over when it fails.
func StartCluster(o Options, masters int, replicas bool) (*Cluster, error) {
	c, err := startCluster(o, masters, replicas)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start a cluster of Redis: %w", err)
	}
	return c, nil
}

func startCluster(o Options, masters int, replicas bool) (*Cluster, error) {
	c := &Cluster{}
	for range masters {
		s, err := start(o, true)
		if err != nil {
			return c, err
		}
		c.Masters = append(c.Masters, s)
		n := len(c.Masters) - 1
		if _, err := s.Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", n*slots/masters, (n+1)*slots/masters-1)); err != nil {
			return c, err
		}
		if _, err := s.Do(fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", n+1)); err != nil {
			return c, err
		}
	}
	for i := 0; replicas && i < masters; i++ {
		s, err := start(o, true)
		if err != nil {
			return c, err
		}
		c.Replicas = append(c.Replicas, s)
	}
	return c, c.join()
}

// join connects all servers, assigns replicas to masters, and waits until each server reports the cluster as complete.
func (c *Cluster) join() error {
	all := c.all()
	if err := meet(all); err != nil {
		return err
	}
	for _, s := range all { // a server that sees the others again waits for the timeout before it serves
		if err := s.Await("CLUSTER INFO", "cluster_state:ok"); err != nil {
			return err
		}
	}
	for _, s := range all {
		if _, err := s.Do(fmt.Sprintf("CONFIG SET cluster-node-timeout %d", nodeTimeout.Milliseconds())); err != nil {
			return err
		}
	}
	for i, s := range c.Replicas {
		id, err := c.Masters[i].Do("CLUSTER MYID")
		if err != nil {
			return err
		}
		if err := s.Await("CLUSTER REPLICATE "+strings.TrimSpace(id), "OK"); err != nil {
			return err
		}
	}
	for _, s := range c.Replicas {
		if err := s.Await("INFO replication", "master_link_status:up"); err != nil {
			return err
		}
	}
	return nil
}

// Promote makes the replica of a master that was killed the master. It does not ask the other masters, which would first have to notice
// the death.
func (c *Cluster) Promote(replica int) error {
	if _, err := c.Replicas[replica].Do("CLUSTER FAILOVER TAKEOVER"); err != nil {
		return fmt.Errorf("fail over in a cluster of Redis: %w", err)
	}
	return nil
}

// meet introduces the servers to each other. A server that does not answer within its node timeout, as on a busy machine, is dropped by the
// server that was to meet it: so servers that do not know all others get the command again.
func meet(all []*Server) error {
	first := fmt.Sprintf("CLUSTER MEET 127.0.0.1 %s %s", portOf(all[0].addr), portOf(all[0].bus))
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		alone, err := strangers(all)
		if err != nil || len(alone) == 0 {
			return err
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("%d of %d servers of a Redis cluster do not know all others after %s", len(alone), len(all), patience)
		}
		for _, s := range alone {
			if s == all[0] {
				continue
			}
			if _, err := s.Do(first); err != nil {
				return err
			}
		}
		for again := time.Now().Add(formingTimeout); len(alone) > 0 && time.Now().Before(again); time.Sleep(5 * time.Millisecond) {
			if alone, err = strangers(all); err != nil {
				return err
			}
		}
	}
}

// strangers returns the servers that do not know all others yet.
func strangers(all []*Server) (alone []*Server, err error) {
	for _, s := range all {
		known, err := s.Do("CLUSTER NODES")
		if err != nil {
			return nil, err
		}
		if strings.Count(known, " connected") < len(all) || strings.Contains(known, "handshake") {
			alone = append(alone, s)
		}
	}
	return alone, nil
}

func (c *Cluster) all() []*Server { return append(append([]*Server(nil), c.Masters...), c.Replicas...) }

// URLs returns the addresses of the masters.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.Masters))
	for i, s := range c.Masters {
		urls[i] = s.URL()
	}
	return urls
}

// Close ends all servers.
func (c *Cluster) Close() {
	if c == nil {
		return
	}
	for _, s := range c.all() {
		s.Close()
	}
}
