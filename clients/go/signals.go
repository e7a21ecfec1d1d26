package godwit

import "time"

// object queues a signal for its handler, where it replaces an older one. The versions that a handler gets only grow.
func (k *registrations) object(s *Signal, now time.Time) {
	key := k.key(s.Group, s.Object)
	s.Group = key.group
	e := k.entries[key]
	if e == nil || !e.wanted() {
		return // the digests correct the server's set later
	}
	switch {
	case s.Unknown:
		e.waiting = s
	case e.covers(s):
		if e.running == nil && e.waiting == nil {
			k.acknowledge(key, s.Version, now) // the first acknowledgement was lost
		}
		return
	default:
		e.waiting = s
	}
	e.retryAt, e.retries.n = time.Time{}, 0
	k.enqueue(key, e)
}

// covers reports whether the version of a signal is already handled. After an unknown version, even the version handled before counts as
// new: the handler was told that it may not be the latest.
func (e *entry) covers(s *Signal) bool {
	last, unknown, floor := e.last, e.unknown, e.floor
	if e.anew {
		unknown, floor = true, 0
	}
	for _, under := range []*Signal{e.running, e.waiting} {
		switch {
		case under == nil:
		case under.Unknown:
			unknown, floor = true, under.Version
		default:
			last, unknown = under.Version, false
		}
	}
	if unknown {
		return s.Version < last || s.Version <= floor
	}
	return s.Version <= last
}

func (k *registrations) enqueue(key objectKey, e *entry) {
	if !e.queued && e.waiting != nil && e.running == nil && e.handle != nil {
		e.queued = true
		k.queue = append(k.queue, key)
	}
}

// next removes the next signal from the queue for its handler. wait is when to call next again; zero: after the next event.
func (k *registrations) next(now time.Time) (handle SignalHandler, s *Signal, wait time.Time) {
	for range len(k.queue) {
		key := k.queue[0]
		k.queue = k.queue[1:]
		e := k.entries[key]
		if e == nil || e.waiting == nil {
			if e != nil {
				e.queued = false
			}
			continue
		}
		if now.Before(e.retryAt) {
			if wait.IsZero() || e.retryAt.Before(wait) {
				wait = e.retryAt
			}
			k.queue = append(k.queue, key)
			continue
		}
		e.queued, e.running, e.waiting = false, e.waiting, nil
		return e.handle, e.running, time.Time{}
	}
	return nil, nil, wait
}

// handled records a handler's result. A handled signal is acknowledged; a failed one is tried again later, unless a newer version has
// arrived.
func (k *registrations) handled(s *Signal, err error, now time.Time) {
	key := s.key()
	e := k.entries[key]
	if e == nil || e.running != s {
		return // unregistered meanwhile, and perhaps registered again
	}
	e.running = nil
	switch {
	case err != nil && e.waiting == nil && e.wanted():
		e.waiting, e.retryAt = s, now.Add(e.retries.next())
	case err != nil:
	case s.Unknown:
		e.unknown, e.floor = true, s.Version
		k.version++
	default:
		e.last, e.unknown, e.anew, e.retries.n = s.Version, false, false, 0
		k.version++
		if e.wanted() {
			k.acknowledge(key, s.Version, now)
		}
	}
	k.enqueue(key, e)
}

// acknowledge queues the acknowledgement of a version. No handler waits for it, so acknowledgements are collected for a moment: a burst of
// versions costs one for each object, and all are sent together.
func (k *registrations) acknowledge(key objectKey, v Version, now time.Time) {
	if len(k.acks) == 0 {
		k.acksAt = now.Add(ackPatience)
	}
	k.acks[key] = max(k.acks[key], v) // an older version may arrive again meanwhile
}
