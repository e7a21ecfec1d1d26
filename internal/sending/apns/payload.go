package apns

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"godwit.dev/godwit/internal/sending/push"
)

// maxPayload is the most bytes that APNs accepts, except for calls over VoIP.
const maxPayload = 4096

// payload is the payload that the app receives; docs/guides/iphone.md is its contract.
type payload struct {
	APS    aps             `json:"aps"`
	ID     string          `json:"godwit_id,omitempty"`
	Recall []string        `json:"godwit_recall,omitempty"`
	Track  string          `json:"godwit_track,omitempty"`
	Ack    string          `json:"godwit_ack,omitempty"`
	Settle string          `json:"godwit_settle,omitempty"`
	Count  *int            `json:"godwit_badge,omitempty"` // set only for messages that tell the badge alone
	Title  string          `json:"title,omitempty"`        // Title and Body are set only for messages in the background, which have no alert
	Body   string          `json:"body,omitempty"`
	URL    string          `json:"url,omitempty"`
	Image  string          `json:"image,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// aps is the part of the payload that the system reads.
type aps struct {
	Alert     *alert   `json:"alert,omitempty"`
	Sound     any      `json:"sound,omitempty"` // a name, or a criticalSound; nil: none
	Badge     *int     `json:"badge,omitempty"`
	Thread    string   `json:"thread-id,omitempty"`
	Level     string   `json:"interruption-level,omitempty"`
	Relevance *float64 `json:"relevance-score,omitempty"`
	Category  string   `json:"category,omitempty"`
	Available int      `json:"content-available,omitempty"` // 1: wakes the app
	Mutable   int      `json:"mutable-content,omitempty"`   // 1: the system passes the message to the app first, which adds the image, or finds a message that it has already
}

// criticalSound is a sound that plays although the device is muted.
type criticalSound struct {
	Critical int     `json:"critical"`
	Name     string  `json:"name"`
	Volume   float64 `json:"volume"`
}

type alert struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// godwitID is the id by which the app deduplicates and acknowledges.
func godwitID(r *push.Request) string {
	if r.GodwitID != "" {
		return r.GodwitID
	}
	return r.ID
}

func encodePayload(r *push.Request) ([]byte, error) {
	p, err := payloadOf(r)
	if err != nil {
		return nil, err
	}
	plain, err := encode(p)
	if err == nil && len(plain) > maxPayload {
		err = fmt.Errorf("the message has %d bytes; APNs takes %d", len(plain), maxPayload)
	}
	return plain, err
}

func encode(p any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // space is limited, and this is not HTML
	if err := enc.Encode(p); err != nil {
		return nil, errors.New("the message cannot be encoded")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func payloadOf(r *push.Request) (*payload, error) {
	if r.Recall {
		return &payload{APS: aps{Available: 1}, Recall: []string{godwitID(r)}}, nil
	}
	if r.BadgeOnly { // the system sets the number, also of an app that its user has closed
		return &payload{APS: aps{Available: 1, Badge: r.Badge}, Count: r.Badge}, nil
	}
	c := &r.Content
	p := &payload{ID: godwitID(r), Track: r.Track, Ack: r.AckToken, Settle: r.Settle, URL: c.URL, Image: c.Image, Data: c.Data}
	if c.APNs.Background {
		p.APS.Available = 1
		p.Title, p.Body = c.Title, c.Body
		return p, nil
	}
	if err := c.APNs.Check("apns"); err != nil { // of a version that did not check it
		return nil, err
	}
	switch {
	case c.Title == "" && c.Body == "" && c.APNs.Badge == nil && c.APNs.Sound == "":
		return nil, errors.New("the message is empty")
	}
	p.APS = aps{
		Sound: soundOf(&c.APNs), Badge: cmp.Or(c.APNs.Badge, r.Badge), Thread: c.APNs.ThreadID, Level: levelOf(&c.APNs), Category: c.Category,
		Relevance: c.APNs.Relevance,
	}
	if c.Title != "" || c.Body != "" {
		p.APS.Alert = &alert{c.Title, c.Body}
	}
	if c.Image != "" || p.Ack != "" {
		p.APS.Mutable = 1
	}
	return p, nil
}

func soundOf(c *push.APNsContent) any {
	switch {
	case c.Sound == "":
		return nil
	case !c.Critical:
		return c.Sound
	}
	volume := 1.0
	if c.Volume != nil {
		volume = *c.Volume
	}
	return criticalSound{1, c.Sound, volume}
}

// levelOf returns the interruption level. A critical sound without its level would stay silent.
func levelOf(c *push.APNsContent) string {
	if c.Critical {
		return "critical"
	}
	return c.InterruptionLevel
}

// newID makes the apns-id of a message that is another one on each attempt.
func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return uuid(u[:])
}

func uuid(u []byte) string {
	h := hex.EncodeToString(u)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

var uuidForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`) })

// messageID is the apns-id: the delivery's id, or a UUID made from it (RFC 9562, version 8). A withdrawal is a message with an id of its
// own.
func messageID(r *push.Request) string {
	if !r.Recall && uuidForm().MatchString(r.ID) {
		return r.ID
	}
	seed := "send\x00" + r.ID
	if r.Recall {
		seed = "recall\x00" + r.ID
	}
	u := sha256.Sum256([]byte(seed))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return uuid(u[:16])
}

// collapseID decides which messages replace each other: those with the same collapse key, else with the same id. It is a hash, so that
// Apple does not see our keys and every id fits into 64 bytes. A recall replaces its message if that still waits for the device, but not
// later messages of the same key.
func collapseID(r *push.Request) string {
	tag := godwitID(r)
	switch {
	case r.Collapse != "" && r.Recall:
		tag = "recall\x00" + tag
	case r.Collapse != "":
		tag = r.Collapse
	}
	sum := sha256.Sum256([]byte(tag))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
