// Package encoded caches the encodings of a value, one for each wire format in use: each is made once and shared by all.
// It knows no format, so an unused format costs nothing.
package encoded

import "sync/atomic"

// Key tells a format from others by its address.
type Key struct{ _ byte }

// Forms are the encodings of one thing. The zero value has none. All methods are safe for concurrent use.
type Forms struct {
	first atomic.Pointer[form]
}

// form is an encoding and, behind it, those that were made before it: seldom more than one.
type form struct {
	bytes  []byte
	next   *form
	format *Key
}

// Get returns the encoding in a format, or nil if nobody has added it yet. It must not be changed.
func (f *Forms) Get(format *Key) []byte {
	for e := f.first.Load(); e != nil; e = e.next {
		if e.format == format {
			return e.bytes
		}
	}
	return nil
}

// Add keeps an encoding, unless another was quicker, and returns the one that is kept. It is not changed from then on.
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
