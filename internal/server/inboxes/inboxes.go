// Package inboxes serves recipients' inboxes: the calls of their apps' pages and back ends, what is kept no more, and figures.
// Their tables are the mailbox's: an item comes into an inbox by the commit of its publish.
package inboxes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/problem"
)

// Name is the module's.
const Name = "inbox"

// Module is the module.
func Module() module.Module {
	return module.Module{Name: Name, Start: start}
}

// service serves inboxes.
type service struct {
	store   inbox.Store // nil: the store of mailboxes has none
	mailbox *mailbox.Mailbox
	access  *access.Registry
	answers chan answer // that came otherwise than by a call
	now     func() time.Time
	log     *slog.Logger
	swept   prometheus.Counter
	marks   *prometheus.CounterVec
}

func start(_ context.Context, h *module.Host) error {
	s := &service{
		store: h.Mailbox.Inboxes(), mailbox: h.Mailbox, access: h.Access, answers: make(chan answer, maxAnswers), now: h.Now, log: h.Log,
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "godwit_inbox_expired_total", Help: "Notifications that left inboxes since start because they were kept long enough.",
		}),
		marks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_inbox_marks_total", Help: "Calls since start that marked something in an inbox, by what they marked.",
		}, []string{"mark"}),
	}
	if s.store != nil {
		h.Run("what inboxes keep no more", patience, s.sweep)
		h.Run("answers to what inboxes keep", patience, s.noteAnswers)
		h.Hub.TellAnswers(s.answered)
	}
	return errors.Join(h.Metrics(s.swept, s.marks), h.Route(
		call.Route{Pattern: "GET /v1/inbox", Serve: s.list},
		call.Route{Pattern: "GET /v1/inbox/counts", Serve: s.counts},
		call.Route{Pattern: "GET /v1/inbox/{id}", Serve: s.item},
		call.Route{Pattern: "POST /v1/inbox/{id}", Serve: s.mark},
		call.Route{Pattern: "POST /v1/inbox/seen", Serve: s.markAll(seen)},
		call.Route{Pattern: "POST /v1/inbox/read", Serve: s.markAll(read)},
		call.Route{Pattern: "POST /v1/inbox/archived", Serve: s.markAll(archived)},
		call.Route{Pattern: "OPTIONS /v1/inbox", Serve: s.preflight},
		call.Route{Pattern: "OPTIONS /v1/inbox/{id}", Serve: s.preflight},
	))
}

const (
	patience   = 5 * time.Second
	sweepEvery = time.Minute // what is kept is kept by the minute
	sweepPause = 20 * time.Millisecond
)

// sweep removes what inboxes keep no more, until ctx ends.
func (s *service) sweep(ctx context.Context) error {
	for {
		wait := sweepEvery
		if s.store.InboxesUsed() {
			n, more, err := s.store.SweepInboxes(ctx, s.now())
			s.swept.Add(float64(n))
			if err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "inboxes keep what is kept no more; trying again", "error", err)
			}
			if more && err == nil {
				wait = sweepPause
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// errNone refuses calls for inboxes where the store of mailboxes has none.
func errNone() error {
	return problem.NotSupported.With("this server keeps its mailboxes in Redis, which has no inboxes; they need SQLite or PostgreSQL")
}
