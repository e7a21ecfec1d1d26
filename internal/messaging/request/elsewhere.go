package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Elsewhere finds sessions of recipients on other nodes.
type Elsewhere interface {
	// NewestNode names the node that has the newest session of a recipient; sessions that only observe, are of another device than a given
	// one, or began before since do not count. Empty: no node that answers has one.
	NewestNode(ctx context.Context, app, recipient, device string, since time.Time) string
	// Ask makes another node call AnswerNode, and waits for the result until ctx ends.
	Ask(ctx context.Context, node string, question any) (json.RawMessage, error)
}

// LookElsewhere enables requests to recipients that are connected to another node. It must be called before the first request.
func (s *Service) LookElsewhere(e Elsewhere) { s.elsewhere = e }

// nodeQuestion is a request to a recipient of another node, nodeAnswer the answer or error.
type nodeQuestion struct {
	App       string  `json:"app"`
	Recipient string  `json:"recipient"`
	Device    string  `json:"device,omitempty"`
	Request   Request `json:"request"`
}

type nodeAnswer struct {
	Answer *Answer `json:"answer,omitempty"`
	Err    string  `json:"error,omitempty"` // of errorNames
}

// errorNames are the names of errors in messages between nodes.
var errorNames = map[string]error{"offline": ErrOffline, "busy": ErrBusy, "no answer": ErrNoAnswer, "worker gone": ErrWorkerGone, "bad answer": errBroken}

// askNode sends a request to a recipient on another node. Once it was sent, the recipient may have received it even if no answer came.
func (s *Service) askNode(ctx context.Context, node, app, recipient, device string, r *Request) (*Answer, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("%w: waited %s", ErrNoAnswer, r.Timeout))
	defer cancel()
	raw, err := s.elsewhere.Ask(ctx, node, nodeQuestion{App: app, Recipient: recipient, Device: device, Request: *r})
	var a nodeAnswer
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	switch {
	case err != nil:
	case a.Err != "" && errorNames[a.Err] != nil:
		err = errorNames[a.Err]
	case a.Answer == nil:
		err = fmt.Errorf("%w: the recipient's node says %q", ErrNoAnswer, a.Err)
	}
	if err != nil {
		return nil, s.metrics.failed(fmt.Errorf("request to %s: %w", recipient, cause(ctx, err)))
	}
	s.metrics.answered(begun, a.Answer.Status)
	return a.Answer, nil
}

// AnswerNode handles a request of another node to a recipient of this node.
func (s *Service) AnswerNode(ctx context.Context, question json.RawMessage) (any, error) {
	var q nodeQuestion
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, err
	}
	if err := q.Request.Check(); err != nil {
		return nil, err
	}
	got, err := s.askSession(ctx, q.App, q.Recipient, q.Device, &q.Request)
	for name, known := range errorNames {
		if errors.Is(err, known) {
			return nodeAnswer{Err: name}, nil
		}
	}
	if err != nil {
		return nodeAnswer{Err: err.Error()}, nil
	}
	return nodeAnswer{Answer: got}, nil
}
