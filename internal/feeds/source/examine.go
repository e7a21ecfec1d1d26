package source

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/foreign"
)

// Check is the result of one examination of a source's server.
type Check struct {
	OK     bool
	Detail string
	Hint   string // what to do; also where it is OK, but may not stay so
}

// Examiner is a Kind that can examine its server, for people who ask what is wrong. It changes nothing there.
type Examiner interface {
	Examine(ctx context.Context, t Target) []Check
}

// Examine examines the server of a source, if its kind can. No secret is in what it returns.
func Examine(ctx context.Context, k Kind, one *Source, targets urlguard.Targets) []Check {
	e, ok := k.(Examiner)
	if !ok {
		return nil
	}
	list := e.Examine(ctx, Target{
		App: one.App, Name: one.Name, Values: one.Values, Targets: one.targets(targets), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	secrets := one.secrets(k.Fields())
	for i := range list {
		list[i].Detail, list[i].Hint = foreign.Excerpt(list[i].Detail, secrets...), foreign.Excerpt(list[i].Hint, secrets...)
	}
	return list
}
