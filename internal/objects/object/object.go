// Package object defines the terms of signals: an object has a known or unknown version; versions only increase; a set of registrations has
// a digest. The package does not use stores or connections.
package object

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits that are part of the public contract.
const (
	MaxPayload       = 4 << 10 // 4 KiB: a signal only reports a change; clients fetch the data itself elsewhere
	MaxRegistrations = 10_000  // most registrations of one device or nameless session
	maxContentType   = 200
)

// Key names an object within its app.
type Key struct{ Group, Object string }

func (k Key) String() string { return k.Group + "/" + k.Object }

// Check applies the rules for names to both parts.
func (k Key) Check() error {
	if err := notification.CheckName("group", k.Group); err != nil {
		return err
	}
	return notification.CheckName("object", k.Object)
}

// Compare orders keys by group, then object.
func (k Key) Compare(o Key) int {
	switch {
	case k.Group < o.Group, k.Group == o.Group && k.Object < o.Object:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// State is an object's state as the server knows it. The zero State is that of an object that was never put: its version is unknown and the
// floor is 0.
type State struct {
	Version     Version // of an unknown object: the floor, a version below the next one
	Known       bool    // false: the latest version is unknown
	Payload     []byte
	ContentType string // of Payload
	Origin      Origin // who made this version
	UpdatedAt   time.Time
}

// Newer reports whether s is later than o. The floor alone orders the states of one object: a known version is above the floor of the state
// before, and an unknown state keeps the floor of the version that it withdraws.
func (s *State) Newer(o *State) bool {
	if s.Version != o.Version {
		return s.Version > o.Version
	}
	return !s.Known && o.Known
}

// Put is a change that a back end requests. It has exactly one of three forms: a version, no version (the server assigns the next one), or
// Unknown with or without a version as floor.
type Put struct {
	Version     Version // 0: the server assigns the next one
	Unknown     bool
	Ordered     bool // with Unknown and a version: nothing changes unless the version is above the current one, so that repeats are harmless
	Payload     []byte
	ContentType string
	Origin      Origin
}

// Check applies the rules of a put. Names are checked by Key.Check.
func (p *Put) Check() error {
	switch {
	case p.Version < 0:
		return notification.BadField("version", "must be from 1 to 2^63-1")
	case len(p.Payload) > MaxPayload:
		return notification.BadField("payload", "has %d bytes; at most %d are allowed: a signal is no place for the data itself", len(p.Payload), MaxPayload)
	case p.Unknown && len(p.Payload) > 0:
		return notification.BadField("payload", "an unknown version has none")
	case len(p.ContentType) > maxContentType || !printable(p.ContentType):
		return notification.BadField("content_type", "must be at most %d bytes of printable text", maxContentType)
	}
	if len(p.Payload) > 0 && notification.IsJSON(p.ContentType) {
		if err := notification.CheckJSON("payload", p.Payload); err != nil {
			return err
		}
		if !json.Valid(p.Payload) {
			return notification.BadField("payload", "is not JSON, which its content type says it is")
		}
		if err := checkActivity(p.Payload); err != nil {
			return err
		}
	}
	return p.Origin.Check()
}

// Apply returns the state after a put and whether it has changed. A put whose version is not above the current one changes nothing.
func (s *State) Apply(p *Put, now time.Time) (next State, changed bool, err error) {
	v := p.Version
	switch {
	case p.Unknown && p.Ordered && v <= s.Version:
		return *s, false, nil
	case p.Unknown:
		v = max(v, s.Version)
		if !s.Known && v == s.Version && !s.UpdatedAt.IsZero() {
			return *s, false, nil // unknown already
		}
		return State{Version: v, Origin: p.Origin, UpdatedAt: now}, true, nil
	case v == 0 && s.Version == MaxVersion:
		return *s, false, notification.BadField("version", "there is no version above the current one")
	case v == 0:
		v = s.Version + 1
	case v <= s.Version:
		return *s, false, nil
	}
	return State{Version: v, Known: true, Payload: p.Payload, ContentType: p.ContentType, Origin: p.Origin, UpdatedAt: now}, true, nil
}

func printable(s string) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7f || c == utf8.RuneError {
			return false
		}
	}
	return true
}
