package webpush

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// payload is what the service worker receives; docs/reference/webpush-payload.md is the contract.
type payload struct {
	ID                 string          `json:"id,omitempty"`
	GodwitID           string          `json:"godwit_id,omitempty"`
	Title              string          `json:"title"`
	Body               string          `json:"body"`
	Icon               string          `json:"icon,omitempty"`
	Image              string          `json:"image,omitempty"`
	URL                string          `json:"url,omitempty"`
	Category           string          `json:"category,omitempty"`
	Data               json.RawMessage `json:"data,omitempty"`
	Actions            []push.Action   `json:"actions,omitempty"`
	RequireInteraction bool            `json:"require_interaction,omitempty"`
	Tag                string          `json:"tag,omitempty"`
	Track              string          `json:"track,omitempty"`
	Ack                string          `json:"godwit_ack,omitempty"`
	Settle             string          `json:"godwit_settle,omitempty"`
	Server             string          `json:"server,omitempty"`
	Recall             bool            `json:"recall,omitempty"`
	Extra              extra           `json:"extra"`
}

// extra is the field where Perfecty Push's service worker expects the URL; without it that worker fails.
type extra struct {
	URLToOpen string `json:"url_to_open"`
}

// tag returns the key by which messages replace each other: the collapse key, or else the id.
func tag(r *push.Request) string {
	switch {
	case r.Collapse != "":
		return r.Collapse
	case r.GodwitID != "":
		return r.GodwitID
	}
	return r.ID
}

// Defaults are used for fields that a message leaves out.
type Defaults struct{ Title, Icon, URL string }

// fill sets missing fields to the defaults.
func (d *Defaults) fill(c push.Content) push.Content {
	c.Title, c.Icon, c.URL = cmp.Or(c.Title, d.Title), cmp.Or(c.Icon, d.Icon), cmp.Or(c.URL, d.URL)
	return c
}

// encodePayload encodes a message's payload. It omits the defaults if the message only fits without them.
func encodePayload(r *push.Request, server string, d Defaults) ([]byte, error) {
	if d == (Defaults{}) || r.Recall {
		return encodeContent(r, &r.Content, server)
	}
	filled := d.fill(r.Content)
	if plain, err := encodeContent(r, &filled, server); err == nil {
		return plain, nil
	}
	return encodeContent(r, &r.Content, server)
}

func encodeContent(r *push.Request, c *push.Content, server string) ([]byte, error) {
	p := payload{ID: r.ID, GodwitID: r.GodwitID, Tag: tag(r), Server: server}
	if p.GodwitID == "" {
		p.GodwitID = r.ID
	}
	if r.Recall {
		p.Recall = true
	} else {
		p.Title, p.Body, p.Icon, p.Image, p.URL, p.Category, p.Data = c.Title, c.Body, c.Icon, c.Image, c.URL, c.Category, c.Data
		p.Actions, p.RequireInteraction = c.WebPush.Actions, c.WebPush.RequireInteraction
		p.Track, p.Ack, p.Settle, p.Extra.URLToOpen = r.Track, r.AckToken, r.Settle, c.URL
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // room is scarce, and this is not HTML
	if err := enc.Encode(&p); err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	plain := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(plain) > MaxPayload {
		return nil, fmt.Errorf("the message has %d bytes; at most %d fit into a push message", len(plain), MaxPayload)
	}
	return plain, nil
}

// topic returns the Topic header (RFC 8030, section 5.4), at most 32 characters of base64url. It is a hash, so that the push service cannot
// read our keys, and any tag fits.
func topic(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

const (
	maxTTL     = 28 * 24 * time.Hour // longest time for which providers store a message
	defaultTTL = 24 * time.Hour
)

// ttl returns the time for which a push service should store a message for a browser that is off, in seconds; ok is false if the message
// has expired.
func ttl(expires, now time.Time) (seconds string, ok bool) {
	left := defaultTTL
	if !expires.IsZero() {
		if left = expires.Sub(now); left <= 0 {
			return "", false
		}
	}
	// At least 1, even in a message's last second: Microsoft's service refuses 0.
	return strconv.FormatInt(max(int64(min(left, maxTTL)/time.Second), 1), 10), true
}
