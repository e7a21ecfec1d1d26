package mailboxdb

import "container/heap"

// expiryQueue orders recipients by the earliest expiry in their lists. Keys are lower bounds: settling does not move a recipient, which is
// checked again at its key's time. So the queue has one entry per recipient in memory, however many copies are settled before they expire,
// and settling costs nothing here.
type expiryQueue []*recipient

func (q expiryQueue) Len() int           { return len(q) }
func (q expiryQueue) Less(i, j int) bool { return q[i].wakes < q[j].wakes }

func (q expiryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i, j
}

func (q *expiryQueue) Push(x any) {
	r := x.(*recipient)
	r.slot = len(*q)
	*q = append(*q, r)
}

func (q *expiryQueue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if c := cap(*q); c > 1<<16 && last < c/4 { // gives the space back after a large backlog
		*q = append(make(expiryQueue, 0, c/2), *q...)
	}
	r.slot = -1
	return r
}

// wakeBy makes sure that r's expiry is checked no later than at.
func (q *expiryQueue) wakeBy(r *recipient, at int64) {
	switch {
	case r.slot < 0:
		r.wakes = at
		heap.Push(q, r)
	case at < r.wakes:
		r.wakes = at
		heap.Fix(q, r.slot)
	}
}

func (q *expiryQueue) remove(r *recipient) {
	if r.slot >= 0 {
		heap.Remove(q, r.slot)
	}
}

// scheduled is a copy that is not due yet.
type scheduled struct {
	at  int64
	r   *recipient
	pos int64
}

// dueQueue orders scheduled copies by due time. Copies settled earlier stay in it until then.
type dueQueue []scheduled

func (q dueQueue) Len() int { return len(q) }

func (q dueQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].pos < q[j].pos
}
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *dueQueue) add(s scheduled) { heap.Push(q, s) }

func (q *dueQueue) take() scheduled { return heap.Pop(q).(scheduled) }

// compact removes copies that are no longer scheduled.
func (q *dueQueue) compact() {
	kept := (*q)[:0]
	for _, s := range *q {
		if e := s.r.find(s.pos); e != nil && e.is(flagScheduled) {
			kept = append(kept, s)
		}
	}
	clear((*q)[len(kept):])
	*q = kept
	heap.Init(q)
}

func (q *dueQueue) Push(x any) { *q = append(*q, x.(scheduled)) }

func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = scheduled{}
	*q = (*q)[:last]
	return s
}
