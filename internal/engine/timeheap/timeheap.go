// Package timeheap orders things by the time at which something is to be done with them. A thing knows its place, so its time may change while it waits.
package timeheap

import (
	"container/heap"
	"time"
)

// Entry is embedded by things that wait in a Heap. The zero value waits in none.
type Entry struct {
	At    time.Time // while the thing waits, Put follows each change
	place int       // 1 + index in the heap; 0: it is in none
}

func (e *Entry) entry() *Entry { return e }

// Waits reports whether the thing is in a heap.
func (e *Entry) Waits() bool { return e.place > 0 }

// IsFirst reports whether the thing is the next of its heap.
func (e *Entry) IsFirst() bool { return e.place == 1 }

// Item is a pointer to a thing that embeds Entry.
type Item interface{ entry() *Entry }

// Heap holds things, the one with the earliest time first. It is not for several goroutines at once.
type Heap[T Item] struct{ items items[T] }

// Put adds a thing, or moves it to its place if it is there.
func (h *Heap[T]) Put(it T) {
	if e := it.entry(); e.place > 0 {
		heap.Fix(&h.items, e.place-1)
	} else {
		heap.Push(&h.items, it)
	}
}

// First returns the thing with the earliest time; false: there is none.
func (h *Heap[T]) First() (it T, ok bool) {
	if len(h.items) == 0 {
		return it, false
	}
	return h.items[0], true
}

// Pop removes the thing with the earliest time. There must be one.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

type items[T Item] []T

func (q items[T]) Len() int           { return len(q) }
func (q items[T]) Less(i, j int) bool { return q[i].entry().At.Before(q[j].entry().At) }
func (q items[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].entry().place, q[j].entry().place = i+1, j+1
}

func (q *items[T]) Push(x any) {
	it := x.(T)
	*q = append(*q, it)
	it.entry().place = len(*q)
}

func (q *items[T]) Pop() any {
	last := len(*q) - 1
	it := (*q)[last]
	var none T
	(*q)[last] = none
	*q = (*q)[:last]
	it.entry().place = 0
	return it
}
