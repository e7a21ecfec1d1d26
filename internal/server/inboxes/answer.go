package inboxes

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/inbox"
)

const (
	// maxAnswers is how many answers of sessions wait for the store. Those beyond are not noted in the inbox; their publishers got them.
	maxAnswers = 1024
	// answerTries is how often an answer is tried to be noted while the store fails.
	answerTries = 5
)

// answer is a reply frame that chose an action of a notification.
type answer struct {
	app, recipient, id, action string
	at                         time.Time
}

// answered takes the answer of a session. It does not wait.
func (s *service) answered(app, recipient, id, action string) {
	if !s.store.InboxesUsed() {
		return
	}
	select {
	case s.answers <- answer{app, recipient, id, action, s.now()}:
	default:
		s.log.Warn("inboxes do not show answers for a while: too many wait", "app", app)
	}
}

// noteAnswers notes the answers of sessions in the inboxes, until ctx ends.
func (s *service) noteAnswers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-s.answers:
			s.note(ctx, &a)
		}
	}
}

func (s *service) note(ctx context.Context, a *answer) {
	for try := range answerTries {
		_, err := s.store.MarkInbox(ctx, a.app, a.recipient, inbox.Mark{ID: a.id, Answered: a.action, At: a.at})
		if err == nil || errors.Is(err, inbox.ErrNotFound) || ctx.Err() != nil {
			return
		}
		s.log.WarnContext(ctx, "an answer is not in the inbox yet", "app", a.app, "id", a.id, "error", err)
		pause.For(ctx, time.Second<<try)
	}
}
