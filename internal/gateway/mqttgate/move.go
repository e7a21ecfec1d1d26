package mqttgate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// A member of a queue whose session ends has messages that only it would have got. MQTT 5 wants them to go to another member (section 4.8.2). They keep
// their ids, so a move that is interrupted and done again brings none twice.

// moved is how many messages are moved with one commit.
const moved = 256

// move moves what waits for a device by shared filters to the other members of each. Without any, it stays, and is erased with the rest. before: only what
// was matched at an earlier revision.
func (g *Gateway) move(ctx context.Context, d filterdb.Device, before int64) error {
	if g.cfg.Waiting == nil {
		return nil
	}
	q := mailbox.PendingQuery{App: d.App, Recipient: d.Mailbox(), Limit: moved}
	for more := true; more; {
		found, err := g.cfg.Waiting.Pending(ctx, []mailbox.PendingQuery{q})
		if err != nil {
			return fmt.Errorf("read what waits for an MQTT device: %w", err)
		}
		if err := g.moveSome(ctx, d, found[0].Items, before); err != nil {
			return err
		}
		for i := range found[0].Items {
			q.Have = append(q.Have, found[0].Items[i].Pos)
		}
		slices.Sort(q.Have)
		more = found[0].More && len(found[0].Items) > 0
	}
	return nil
}

func (g *Gateway) moveSome(ctx context.Context, d filterdb.Device, items []mailbox.Item, before int64) error {
	var drafts []*notification.Draft
	members := make(map[string][]string)
	for i := range items {
		n := items[i].N
		_, _, shares := cutBody(n.Content.Body)
		at := matchedOf(n.Content.ContentType)
		left := n.ExpiresAt.Sub(g.cfg.Now())
		if n.Content.Category != keptCategory || len(shares) == 0 || at == 0 || at >= before || left <= 0 {
			continue
		}
		for _, share := range shares {
			if _, known := members[share]; !known {
				members[share] = g.heirs(ctx, d, share)
			}
			if len(members[share]) == 0 {
				continue
			}
			h := fnv.New32a()
			_, _ = h.Write([]byte(n.ID))                             // never fails
			to := members[share][int(h.Sum32())%len(members[share])] // the same one if this is done again
			c := n.Content
			contentType, properties, _ := cutBody(c.Body)
			c.Body = keptBody(contentType, []byte(properties), []string{share})
			drafts = append(drafts, &notification.Draft{To: []string{to}, ID: n.ID, TTL: left, Content: c, Alone: true})
		}
	}
	if len(drafts) == 0 {
		return nil
	}
	var failed error
	for _, r := range g.cfg.Publisher.Publish(ctx, d.App, drafts) {
		err := r.Err
		for i := range r.Copies {
			switch e := r.Copies[i].Err; {
			case errors.Is(e, mailbox.ErrFull):
				g.counts.dropped.Add(1)
			case !errors.Is(e, mailbox.ErrConflict): // it has one of this id by another filter
				err = errors.Join(err, e)
			}
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil && before != math.MaxInt64 {
		failed = g.settleMoved(ctx, d, drafts)
	}
	return failed
}

// settleMoved takes messages out of a mailbox that is not erased.
func (g *Gateway) settleMoved(ctx context.Context, d filterdb.Device, drafts []*notification.Draft) error {
	for _, draft := range drafts {
		if _, err := g.cfg.Waiting.Recall(ctx, d.App, draft.ID, d.Mailbox()); err != nil && !errors.Is(err, mailbox.ErrNotFound) {
			return err // says what it recalls
		}
	}
	return nil
}

// heirs returns the mailboxes of the other members of a queue: those that are here, if there are any.
func (g *Gateway) heirs(ctx context.Context, d filterdb.Device, share string) []string {
	members := slices.DeleteFunc(g.cfg.Filters.Members(d.App, share), func(box string) bool { return box == d.Mailbox() })
	here := slices.DeleteFunc(slices.Clone(members), func(box string) bool {
		names, err := g.cfg.Hub.Online(ctx, d.App, box)
		return err != nil || len(names) == 0
	})
	if len(here) > 0 {
		return here
	}
	return members
}
