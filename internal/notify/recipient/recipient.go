// Package recipient combines all data about an app's recipients: pending notifications, connections, endpoints and registrations.
// It also erases them, in all of these places.
package recipient

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/signal"
)

// Mailbox lists the recipients of published notifications.
type Mailbox interface {
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error)
	Recipient(ctx context.Context, app, recipient string) (mailbox.RecipientInfo, error)
	Erase(ctx context.Context, app, recipient string) error
}

// Presence lists the live sessions. Queries to other nodes may take up to a quarter of a second; an answer is partial if
// some of them did not answer.
type Presence interface {
	// Sessions lists the sessions of each of these recipients.
	Sessions(ctx context.Context, app string, recipients []string) (live [][]session.Info, partial bool, err error)
	// Disconnect ends a recipient's sessions with a goodbye of this reason and returns how many there were.
	Disconnect(ctx context.Context, app, recipient, reason string) (n int, partial bool, err error)
}

// Endpoints lists the push addresses of a recipient.
type Endpoints interface {
	Of(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	Erase(ctx context.Context, app, recipient string) (int, error)
}

// Objects lists registrations for objects.
type Objects interface {
	OfRecipient(ctx context.Context, app, recipient string) ([]signal.Registration, error)
	Erase(ctx context.Context, app, recipient string) error
}

// Rest is the data of a recipient outside the parts above.
type Rest interface {
	EraseRecipient(ctx context.Context, app, recipient string) (int, error)
}

// Traces are the logs and files that may still contain data of an erased recipient.
type Traces interface {
	Erased(ctx context.Context, app, name string) error
}

// Config holds what a Service needs.
type Config struct {
	Mailbox   Mailbox
	Presence  Presence
	Endpoints Endpoints
	Objects   Objects
	Rest      Rest   // nil: there is none
	Traces    Traces // nil: nobody looks for them
	Log       *slog.Logger
}

// Service combines the data about recipients of all apps.
type Service struct{ Config }

// New makes a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// View is all data about a recipient.
type View struct {
	mailbox.RecipientInfo
	Sessions      []session.Info
	Endpoints     []audience.Endpoint
	Registrations []signal.Registration
	Partial       bool // other nodes may have more sessions
}

// Get reads one recipient. It also finds a recipient that only has a session or endpoints and no mailbox yet.
func (s *Service) Get(ctx context.Context, app, name string) (*View, error) {
	live, partial, err := s.Presence.Sessions(ctx, app, []string{name})
	if err != nil {
		return nil, err
	}
	v := &View{Sessions: live[0], Partial: partial}
	if v.Endpoints, err = s.Endpoints.Of(ctx, app, name); err != nil {
		return nil, err
	}
	v.RecipientInfo, err = s.Mailbox.Recipient(ctx, app, name)
	if errors.Is(err, mailbox.ErrNotFound) && len(v.Sessions)+len(v.Endpoints) > 0 {
		v.RecipientInfo, err = mailbox.RecipientInfo{Name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	return v, s.complete(ctx, app, v)
}

// complete adds registrations, and data that is newer in the sessions.
func (s *Service) complete(ctx context.Context, app string, v *View) (err error) {
	for i := range v.Sessions {
		if v.Sessions[i].LastSeen.After(v.LastSeen) {
			v.LastSeen = v.Sessions[i].LastSeen
		}
	}
	v.Registrations, err = s.Objects.OfRecipient(ctx, app, v.Name)
	return err
}

// List reads recipients whose names begin with prefix, sorted by name. next is the cursor of the next page, or empty.
func (s *Service) List(ctx context.Context, app, prefix string, limit int, after string) (list []*View, next string, err error) {
	infos, next, err := s.named(ctx, app, prefix, limit, after)
	if err != nil {
		return nil, "", err
	}
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	live, partial, err := s.Presence.Sessions(ctx, app, names)
	if err != nil {
		return nil, "", err
	}
	for i := range infos {
		v := &View{RecipientInfo: infos[i], Sessions: live[i], Partial: partial}
		if v.Endpoints, err = s.Endpoints.Of(ctx, app, v.Name); err != nil {
			return nil, "", err
		}
		if err := s.complete(ctx, app, v); err != nil {
			return nil, "", err
		}
		list = append(list, v)
	}
	return list, next, nil
}

// named reads a page of names with a prefix; the first one may be equal to the prefix.
func (s *Service) named(ctx context.Context, app, prefix string, limit int, after string) (infos []mailbox.RecipientInfo, next string, err error) {
	if after < prefix {
		after = prefix
		first, err := s.Mailbox.Recipient(ctx, app, prefix)
		switch {
		case err == nil:
			infos, limit = append(infos, first), limit-1
		case !errors.Is(err, mailbox.ErrNotFound):
			return nil, "", err
		}
		if limit == 0 {
			return infos, prefix, nil
		}
	}
	found, next, err := s.Mailbox.Recipients(ctx, app, limit, after)
	if err != nil {
		return nil, "", err
	}
	for i := range found {
		if !strings.HasPrefix(found[i].Name, prefix) {
			return append(infos, found[:i]...), "", nil
		}
	}
	return append(infos, found...), next, nil
}

// Erase deletes a recipient; by is the id of the caller's key. The mailbox is erased first: otherwise a session that ended before it could
// reconnect in between.
func (s *Service) Erase(ctx context.Context, app, name, by string) error {
	regs, err := s.Objects.OfRecipient(ctx, app, name)
	if err != nil {
		return err
	}
	err = s.Mailbox.Erase(ctx, app, name)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return err
	}
	objectsErr := s.Objects.Erase(ctx, app, name)
	ended, partial, offlineErr := s.Presence.Disconnect(ctx, app, name, frame.Erased)
	if objectsErr != nil {
		return objectsErr
	}
	endpoints, failed := s.Endpoints.Erase(ctx, app, name)
	if failed != nil {
		return failed
	}
	rest := 0
	if s.Rest != nil {
		if rest, failed = s.Rest.EraseRecipient(ctx, app, name); failed != nil {
			return failed
		}
	}
	if offlineErr != nil {
		return offlineErr
	}
	if ended > 0 { // a session that began after the mailbox was erased has noted the name again
		if again := s.Mailbox.Erase(ctx, app, name); again != nil && !errors.Is(again, mailbox.ErrNotFound) {
			return again
		}
	}
	if err != nil && ended+len(regs)+endpoints+rest == 0 {
		return err
	}
	if s.Traces != nil {
		if err := s.Traces.Erased(ctx, app, name); err != nil {
			return err
		}
	}
	s.Log.InfoContext(ctx, "recipient erased", "app", app, "recipient", name, "key", by, "sessions", ended, "partial", partial, "endpoints", endpoints)
	return nil
}

// Disconnect ends a recipient's sessions and returns how many there were; by is the id of the caller's key.
func (s *Service) Disconnect(ctx context.Context, app, name, by string) (n int, partial bool, err error) {
	n, partial, err = s.Presence.Disconnect(ctx, app, name, "disconnected")
	if err != nil {
		return 0, false, err
	}
	s.Log.InfoContext(ctx, "recipient disconnected", "app", app, "recipient", name, "key", by, "sessions", n)
	return n, partial, nil
}
