package session

import "godwit.dev/godwit/internal/notify/mailbox"

// chain links the items of a batch that have the same recipient, in their order.
type chain struct {
	last  map[address]int32 // index of the last item of each recipient, while the chain is made
	after []int32           // by item: 1 + index of the next item for the same recipient; 0: none
	later []bool            // by item: an earlier item has the same recipient
}

// link makes the chain for a batch. The copies of a single publish have different recipients, so they are not compared.
func (c *chain) link(items []mailbox.Item) {
	c.after, c.later = c.after[:0], c.later[:0]
	if n := len(items); n < 2 || items[0].N == items[n-1].N {
		return
	}
	if c.last == nil {
		c.last = make(map[address]int32)
	}
	c.after = append(c.after, make([]int32, len(items))...)
	c.later = append(c.later, make([]bool, len(items))...)
	for i := range items {
		a := address{items[i].N.App, items[i].Recipient}
		if before, ok := c.last[a]; ok {
			c.after[before], c.later[i] = int32(i)+1, true // a batch is far smaller
		}
		c.last[a] = int32(i)
	}
	clear(c.last)
}

// next returns the index of the item after the i-th with the same recipient, or -1.
func (c *chain) next(i int) int {
	if len(c.after) == 0 {
		return -1
	}
	return int(c.after[i]) - 1
}

// follows reports whether an item before the i-th has the same recipient.
func (c *chain) follows(i int) bool { return len(c.later) > 0 && c.later[i] }
