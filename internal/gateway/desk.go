package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

const (
	maxPostBytes  = 512 << 10 // an ack of a whole window takes 128 KB
	maxPostFrames = 1000
)

// Desk knows the lines of this node by the secret ids of their sessions. It serves POST /v1/frames.
type Desk struct {
	origins Origins
	mu      sync.RWMutex
	lines   map[string]*Line
}

// NewDesk makes an empty Desk.
func NewDesk(o Origins) *Desk { return &Desk{origins: o, lines: make(map[string]*Line)} }

// Add makes a welcomed line known. The id alone is the right to post: it has 128 random bits.
func (d *Desk) Add(l *Line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines[l.sess.ID()] = l
}

// Remove forgets a line.
func (d *Desk) Remove(l *Line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := l.sess.ID(); d.lines[id] == l {
		delete(d.lines, id)
	}
}

// Find returns the line of a session, or nil.
func (d *Desk) Find(id string) *Line {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.lines[id]
}

// NoSession is the answer where a session id is not known, or no longer.
func NoSession() error {
	return problem.NoSuchSession.New()
}

// ServeHTTP takes client frames that come by POST.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !Admit(w, r, d.origins, http.MethodPost) {
		return
	}
	var body struct {
		Session string            `json:"session"`
		Frames  []json.RawMessage `json:"frames"`
	}
	if err := readJSON(w, r, &body); err != nil {
		Fail(w, err)
		return
	}
	if len(body.Frames) > maxPostFrames {
		Fail(w, notification.BadField("frames", "has %d frames; at most %d are allowed", len(body.Frames), maxPostFrames))
		return
	}
	line := d.Find(body.Session)
	if line == nil {
		Fail(w, NoSession())
		return
	}
	answers, err := line.Post(r.Context(), body.Frames)
	if err != nil {
		Fail(w, err)
		return
	}
	Reply(w, "", answers)
}

// Reply answers with JSON frames, and with the session's id if it is not empty.
func Reply(w http.ResponseWriter, id string, items []Item) {
	var b []byte
	if id == "" {
		b = append(b, `{"frames":[`...)
	} else {
		b = fmt.Appendf(b, `{"session":%q,"frames":[`, id)
	}
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, it.Head...), it.Tail...)
	}
	b = append(b, "]}\n"...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b) // what does not arrive is delivered again
}

// readJSON reads a small JSON body strictly.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPostBytes))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return problem.TooLarge.Withf("at most %d bytes are allowed", tooBig.Limit)
	case err != nil:
		return problem.BadInput.With("the body could not be read")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err = dec.Decode(into); err == nil {
		_, err = dec.Token()
	}
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(b)) > 0 {
		return nil
	}
	if err == nil {
		err = errors.New("something follows the object")
	}
	return problem.BadInput.Withf("the body must be {\"session\",\"frames\":[…]}: %v", err)
}
