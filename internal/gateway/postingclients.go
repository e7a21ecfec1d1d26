package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

const (
	maxPostBytes  = 1536 << 10 // an answer of 1 MiB takes 1.4 MiB as base64
	maxPostFrames = 1000
)

// PostingClients finds the clients of this node that post their frames, by the secret ids of their sessions. It serves POST /v1/frames.
type PostingClients struct {
	origins Origins
	forward *Forwarder // nil: there are no other nodes
	mu      sync.RWMutex
	clients map[string]*PostingClient
}

// NewPostingClients begins with none.
func NewPostingClients(o Origins) *PostingClients {
	return &PostingClients{origins: o, clients: make(map[string]*PostingClient)}
}

// ForwardTo sets the Forwarder for posts to sessions of other nodes. It must be called before the first request.
func (p *PostingClients) ForwardTo(f *Forwarder) { p.forward = f }

// Forward answers a request for a session of another node; see Forwarder.
func (p *PostingClients) Forward(w http.ResponseWriter, r *http.Request, session string, body []byte) bool {
	return p.forward.Forward(w, r, session, body)
}

// Add records a welcomed client. The id alone authorizes posts: it has 128 random bits.
func (p *PostingClients) Add(c *PostingClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.sess.ID()] = c
}

// Remove forgets a client.
func (p *PostingClients) Remove(c *PostingClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := c.sess.ID(); p.clients[id] == c {
		delete(p.clients, id)
	}
}

// Find returns the client of a session; nil if there is none.
func (p *PostingClients) Find(id string) *PostingClient {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.clients[id]
}

// NoSession is the error for a session id that is unknown or whose session has ended.
func NoSession() error {
	return problem.NoSuchSession.New()
}

// ServeHTTP handles posted client frames.
func (p *PostingClients) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !Admit(w, r, p.origins, http.MethodPost) {
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
	client := p.Find(body.Session)
	if client == nil {
		if p.forward != nil {
			if again, err := json.Marshal(body); err == nil && p.Forward(w, r, body.Session, again) {
				return
			}
		}
		Fail(w, NoSession())
		return
	}
	answers, err := client.Post(r.Context(), body.Frames)
	if err != nil {
		Fail(w, err)
		return
	}
	Reply(w, answers)
}

// Reply answers a post with JSON frames.
func Reply(w http.ResponseWriter, items []Item) {
	_ = reply(w, []byte("{"), items) // the session sends frames of a lost answer again
}

// ReplyPoll answers a poll with JSON frames, the session's id and the answer's number. An error means that the client cannot have received
// the answer.
func ReplyPoll(w http.ResponseWriter, id string, number uint64, items []Item) error {
	return reply(w, fmt.Appendf(nil, `{"session":%q,"answer":%d,`, id, number), items)
}

func reply(w http.ResponseWriter, b []byte, items []Item) error {
	b = append(b, `"frames":[`...)
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, it.Head...), it.Tail...)
	}
	b = append(b, "]}\n"...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store, no-transform")
	w.Header().Set("Content-Length", strconv.Itoa(len(b))) // for parsers that stop at the end of the JSON: they see that nothing follows
	_, err := w.Write(b)
	return err
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
