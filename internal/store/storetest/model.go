package storetest

import (
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// model is the contract of a mailbox store in its simplest form.
type model struct {
	copies []*modelCopy
	seqs   map[string]uint64 // by recipient
	max    int
}

type modelCopy struct {
	to  string
	n   *notification.Notification
	as  notification.Status // the status with which it settled; 0: it has not
	at  time.Time           // when it settled
	seq uint64
}

func (m *model) find(to, id string) *modelCopy {
	for _, c := range slices.Backward(m.copies) {
		if c.to == to && c.n.ID == id {
			return c
		}
	}
	return nil
}

func (m *model) open(to string) (n int) {
	for _, c := range m.copies {
		if c.to == to && c.as == 0 {
			n++
		}
	}
	return n
}

func (m *model) give(c *modelCopy) {
	m.seqs[c.to]++
	c.seq = m.seqs[c.to]
}

// publish returns the answer that the store must give: a status, whether it is a duplicate, and an error.
func (m *model) publish(n *notification.Notification, to string) mailbox.AppendResult {
	now := n.CreatedAt
	if c := m.find(to, n.ID); c != nil && (c.as == 0 || !now.After(c.at.Add(notification.DedupWindow))) {
		if c.n.Content.Title != n.Content.Title {
			return mailbox.AppendResult{Err: mailbox.ErrConflict}
		}
		return mailbox.AppendResult{Duplicate: true, Status: c.status(now)}
	} else if c != nil {
		m.copies = slices.DeleteFunc(m.copies, func(o *modelCopy) bool { return o == c })
	}
	if n.CollapseKey != "" {
		for _, c := range m.copies {
			if c.to == to && c.as == 0 && c.n.CollapseKey == n.CollapseKey && c.n.ExpiresAt.After(now) {
				c.as, c.at = notification.Replaced, now
			}
		}
	}
	if m.open(to) >= m.max {
		return mailbox.AppendResult{Err: mailbox.ErrFull}
	}
	c := &modelCopy{to: to, n: n}
	m.copies = append(m.copies, c)
	if n.SendAt.IsZero() {
		m.give(c)
	}
	return mailbox.AppendResult{Status: c.status(now)}
}

func (c *modelCopy) status(now time.Time) notification.Status {
	switch {
	case c.as != 0:
		return c.as
	case !c.n.ExpiresAt.After(now):
		return notification.Expired
	case c.seq == 0:
		return notification.Scheduled
	}
	return notification.Stored
}

func (m *model) settle(to, id string, as notification.Status, now time.Time) mailbox.SettleOutcome {
	c := m.find(to, id)
	switch {
	case c == nil:
		return mailbox.SettleUnknown
	case c.as == notification.Expired:
		return mailbox.SettleLate
	case c.as != 0:
		return mailbox.SettleAlready
	case !c.n.ExpiresAt.After(now):
		c.as, c.at = notification.Expired, c.n.ExpiresAt
		return mailbox.SettleLate
	}
	c.as, c.at = as, now
	return mailbox.SettleDone
}

func (m *model) expire(now time.Time) {
	for _, c := range m.copies {
		if c.as == 0 && !c.n.ExpiresAt.After(now) {
			c.as, c.at = notification.Expired, now
		}
	}
}

func (m *model) due(now time.Time) {
	var due []*modelCopy
	for _, c := range m.copies {
		if c.as == 0 && c.seq == 0 && !c.n.SendAt.After(now) {
			due = append(due, c)
		}
	}
	slices.SortStableFunc(due, func(a, b *modelCopy) int { return a.n.SendAt.Compare(b.n.SendAt) })
	for _, c := range due {
		if c.n.ExpiresAt.After(now) {
			m.give(c)
		} else {
			c.as, c.at = notification.Expired, now
		}
	}
}

func (m *model) pending(to string, now time.Time) (ids []string) {
	var open []*modelCopy
	for _, c := range m.copies {
		if c.to == to && c.as == 0 && c.seq > 0 && c.n.ExpiresAt.After(now) {
			open = append(open, c)
		}
	}
	slices.SortFunc(open, func(a, b *modelCopy) int {
		if a.n.Priority != b.n.Priority {
			return int(a.n.Priority) - int(b.n.Priority)
		}
		return int(int64(a.seq) - int64(b.seq))
	})
	for _, c := range open {
		ids = append(ids, fmt.Sprintf("%s/%d", c.n.ID, c.seq))
	}
	return ids
}

func (m *model) erase(to string) {
	m.copies = slices.DeleteFunc(m.copies, func(c *modelCopy) bool { return c.to == to })
	delete(m.seqs, to)
}
