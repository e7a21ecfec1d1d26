package server

import (
	"context"
	"fmt"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// App creates an app: a namespace with its own recipients. It does not change an existing one.
func (s *Server) App(ctx context.Context, name string) error {
	if s.begun() == nil {
		return fmt.Errorf("make app %s: %w", name, errNotStarted)
	}
	if _, err := s.host.Access.App(name); err == nil {
		return nil
	}
	if err := s.host.Access.CreateApp(ctx, name, access.AppChange{}); err != nil {
		return fmt.Errorf("make app %s: %w", name, asError(err))
	}
	return nil
}

// Key creates an API key of an app for the HTTP API, with roles such as "publish", "read" and "admin". The secret is returned only this
// once.
func (s *Server) Key(ctx context.Context, app, name string, roles ...string) (secret string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("make key %s of app %s: %w", name, app, err) }
	if s.begun() == nil {
		return fail(errNotStarted)
	}
	role, err := access.ParseRoles(roles)
	if err != nil {
		return fail(asError(err))
	}
	if _, secret, err = s.host.Access.CreateKey(ctx, app, name, role); err != nil {
		return fail(asError(err))
	}
	return secret, nil
}

// Publish stores a notification for p.To and returns once it is on disk. The rules and the errors, of type *godwit.Error, are those of the
// HTTP API.
func (s *Server) Publish(ctx context.Context, app string, p godwit.Publication) (godwit.Receipt, error) {
	receipt := godwit.Receipt{ID: p.ID, To: p.To}
	fail := func(err error) (godwit.Receipt, error) {
		receipt.Err = err
		return receipt, fmt.Errorf("publish to %s: %w", p.To, err)
	}
	if s.begun() == nil {
		return fail(errNotStarted)
	}
	if _, err := s.host.Access.App(app); err != nil {
		return fail(asError(err))
	}
	body, err := p.RequestBody()
	if err != nil {
		return fail(err)
	}
	draft, err := backend.ReadDraft(body)
	if err != nil {
		return fail(asError(err))
	}
	result := s.host.Publisher.Publish(ctx, app, []*notification.Draft{draft})[0]
	if result.Err == nil {
		result.Err = result.Copies[0].Err
	}
	if receipt.ID = result.ID; result.Err != nil {
		return fail(asError(call.NotStored(result.Err)))
	}
	one := &result.Copies[0]
	receipt.Status, receipt.Duplicate, receipt.ExpiresAt = one.Status.String(), one.Duplicate, one.ExpiresAt
	return receipt, nil
}

// asError returns an error as the HTTP API would answer it. It wraps details that the API hides from its callers.
func asError(err error) error {
	p := problem.From(err)
	known := &godwit.Error{Status: p.Status, Type: p.Type, Title: p.Title, Detail: p.Detail, Field: p.Field, RetryAfter: p.RetryAfter}
	if p.Status < 500 {
		return known
	}
	return fmt.Errorf("%w: %w", known, err)
}
