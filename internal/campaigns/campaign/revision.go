package campaign

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"godwit.dev/godwit/internal/cluster/setting"
)

// Revision returns a fingerprint of a campaign's definition and time. A change names the revision that its author has read, so that nobody
// replaces unread words. A segment's expression is left out: the server reads it, and nobody writes it here.
func (c *Campaign) Revision() string {
	spec := c.Spec
	spec.Segment = nil
	says, err := json.Marshal(struct {
		Spec   *Spec
		SendAt int64
	}{&spec, c.SendAt.UnixMilli()})
	if err != nil {
		return "unreadable" // cannot happen: the definition was read from JSON
	}
	sum := sha256.Sum256(says)
	return hex.EncodeToString(sum[:8])
}

// replaceable fails if the campaign has another revision than the one that a change requires. Storing the same again loses nothing, as when
// a button is pressed twice.
func (c *Campaign) replaceable(must setting.Match, with *Campaign) error {
	now := c.Revision()
	if with.Revision() == now {
		return nil
	}
	return must.Check("campaign "+c.ID, now)
}
