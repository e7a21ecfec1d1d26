package regs

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Client decodes a client: its registered objects and its versions of them, as EncodeKeys and EncodeProgress wrote them.
func Client(id objectstore.ClientID, keys []byte, seenAt int64, progress []byte) (v objectstore.Saved, err error) {
	v = objectstore.Saved{ID: id, SeenAt: time.UnixMilli(seenAt).UTC()}
	err = DecodeKeys(id.Group, keys, func(k object.Key) { v.Keys = append(v.Keys, k) })
	if err == nil {
		v.Progress, err = DecodeProgress(progress)
	}
	if err != nil {
		return v, fmt.Errorf("client %s of %s: %w", id.Device, id.Recipient, err)
	}
	return v, nil
}

// Watcher reports whether a client is registered for an object, and which version the client has.
func Watcher(v *objectstore.Saved, k object.Key) (w objectstore.Watcher, ok bool) {
	w = objectstore.Watcher{ID: v.ID, SeenAt: v.SeenAt}
	for _, have := range v.Keys {
		ok = ok || have == k
	}
	for _, p := range v.Progress {
		if p.Object == k.Hash() {
			w.Acked, w.Sent = p.Acked, p.Sent
		}
	}
	return w, ok
}
