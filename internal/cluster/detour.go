package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// If only this node cannot reach the store, it still receives acknowledgements: from its sessions until they have moved, and over HTTP.
// Another node settles them, so that a recipient who has acknowledged does not get the next step of an escalation.

const (
	whatSettle = "settle"
	// settlePatience limits the other node's time. A step waits for seconds at least.
	settlePatience = 2 * time.Second
	settlesAtOnce  = 8
	// detourQueue limits the batches that wait for the other node, detourBatch the acknowledgements in one question (about 100 KB).
	detourQueue = 4096
	detourBatch = 500
)

// Detour settles acknowledgements through another node while this one cannot reach the store.
type Detour struct {
	mailbox.Store
	c     *Cluster
	queue chan []*mailbox.Settle
}

// NewDetour returns a store that uses another node when this node cannot reach the store.
func (c *Cluster) NewDetour(store mailbox.Store) *Detour {
	d := &Detour{Store: store, c: c, queue: make(chan []*mailbox.Settle, detourQueue)}
	if s, ok := store.(mailbox.Diverter); ok {
		s.Divert(d.divert)
	}
	c.Answer(whatSettle, settlePatience, settlesAtOnce, func(ctx context.Context, body json.RawMessage) (any, error) {
		var batch []*mailbox.Settle
		if err := json.Unmarshal(body, &batch); err != nil {
			return nil, err
		}
		if err := store.Settle(ctx, batch); err != nil {
			return nil, err
		}
		return outcomes(batch), nil
	})
	c.answerReach()
	c.ended.Go(d.run)
	return d
}

func outcomes(batch []*mailbox.Settle) []mailbox.SettleOutcome {
	list := make([]mailbox.SettleOutcome, len(batch))
	for i, s := range batch {
		list[i] = s.Outcome
	}
	return list
}

// divert implements mailbox.Diverter's by.
func (d *Detour) divert(batch []*mailbox.Settle) bool {
	if d.c.storeNode(d.c.ctx, 0) == "" {
		return false
	}
	select {
	case d.queue <- batch:
		return true
	default:
		return false
	}
}

// run sends acknowledgements to another node until the cluster is closed.
func (d *Detour) run() {
	for {
		var batch []*mailbox.Settle
		select {
		case <-d.c.ctx.Done():
			return
		case batch = <-d.queue:
		}
		for more := true; more && len(batch) < detourBatch; {
			select {
			case next := <-d.queue:
				batch = append(batch[:len(batch):len(batch)], next...)
			default:
				more = false
			}
		}
		for part := range slices.Chunk(batch, detourBatch) {
			if err := d.ask(d.c.ctx, part); err != nil {
				d.Store.SettleLater(part)
			}
		}
	}
}

// Settle implements mailbox.Store.
func (d *Detour) Settle(ctx context.Context, batch []*mailbox.Settle) error {
	err := d.Store.Settle(ctx, batch)
	if err == nil || !errors.Is(err, mailbox.ErrAway) {
		return err
	}
	for part := range slices.Chunk(batch, detourBatch) {
		if derr := d.ask(ctx, part); derr != nil {
			return err
		}
	}
	return nil
}

// errNoWay means that no other node reaches the store.
var errNoWay = errors.New("no other node reaches the store")

// ask makes another node settle a batch.
func (d *Detour) ask(ctx context.Context, batch []*mailbox.Settle) error {
	boot := d.c.storeNode(ctx, 0)
	if boot == "" {
		return errNoWay
	}
	ctx, cancel := context.WithTimeoutCause(ctx, settlePatience, fmt.Errorf("node %s did not settle within %s", boot, settlePatience))
	defer cancel()
	body, err := d.c.AskOne(ctx, boot, whatSettle, batch)
	if err != nil {
		return err
	}
	var done []mailbox.SettleOutcome
	if err := json.Unmarshal(body, &done); err != nil || len(done) != len(batch) {
		return fmt.Errorf("node %s answered with %d outcomes of %d: %w", boot, len(done), len(batch), err)
	}
	for i, outcome := range done {
		batch[i].Outcome = outcome
	}
	return nil
}
