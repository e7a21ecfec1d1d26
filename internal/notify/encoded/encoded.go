// Package encoded caches the encodings of a value, one for each wire format in use: each is made once and shared by all receivers. The
// package does not depend on any format, so an unused format costs nothing.
package encoded

import "sync/atomic"

// Key identifies a format by its address.
type Key struct{ _ byte }

// Forms are the encodings of one value. The zero value holds none. All methods are safe for concurrent use.
type Forms struct {
	first atomic.Pointer[form]
}

// form is an encoding, linked to those that were made before it; there is seldom more than one.
type form struct {
	bytes  []byte
	next   *form
	format *Key
}

// Get returns the encoding in a format, or nil if none was added yet. The caller must not change it.
func (f *Forms) Get(format *Key) []byte {
	for e := f.first.Load(); e != nil; e = e.next {
		if e.format == format {
			return e.bytes
		}
	}
	return nil
}

// Add stores an encoding, unless another goroutine was faster, and returns the stored one. It must not be changed any more.
func (f *Forms) Add(format *Key, b []byte) []byte {
	e := &form{bytes: b, format: format}
	for {
		e.next = f.first.Load()
		for o := e.next; o != nil; o = o.next {
			if o.format == format {
				return o.bytes
			}
		}
		if f.first.CompareAndSwap(e.next, e) {
			return b
		}
	}
}
