// Package resource describes an app's settings that have names: hooks, sinks, sources, categories, gateway services and batching intervals. The
// console's one form, made of the fields of each kind, serves them all.
package resource

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
)

// Hooks post events to an app's own programs.
type Hooks interface {
	List(ctx context.Context, app string) ([]hook.Info, error)
	Get(ctx context.Context, app, name string) (hook.Info, error)
	Set(ctx context.Context, app, name string, c hook.Change) (info hook.Info, created bool, made string, err error)
	Test(ctx context.Context, app, name string) error
	Replay(ctx context.Context, app, name string, since uint64) (hook.Info, error)
	Delete(ctx context.Context, app, name string, must setting.Match) error
}

// Sinks write an app's events to analytics databases.
type Sinks interface {
	List(ctx context.Context, app string) ([]sink.Info, error)
	Get(ctx context.Context, app, kind string) (sink.Info, error)
	Set(ctx context.Context, app, kind string, c sink.Change) (info sink.Info, created bool, err error)
	Kinds() []string
	Fields(kind string) ([]setting.Field, error)
	Delete(ctx context.Context, app, kind string, must setting.Match) error
}

// Sources read an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, name string) (source.Info, error)
	Set(ctx context.Context, app, name string, c source.Change) (info source.Info, created bool, err error)
	Preview(ctx context.Context, app, name string, c source.Change) (source.Preview, error)
	Kinds() []string
	// Previews reports whether sources of a kind have a preview.
	Previews(kind string) bool
	Fields(kind string) ([]setting.Field, error)
	// Quarantine lists entries that were no notification, newest first, below a number. Zero: from the newest.
	Quarantine(ctx context.Context, app, name string, below int64, limit int) ([]source.SetAside, error)
	EmptyQuarantine(ctx context.Context, app, name string) error
	// Delete ends a source. left says what could not be removed at its server.
	Delete(ctx context.Context, app, name string, must setting.Match) (left string, err error)
}

// Named are the settings of categories, gateway services and groups of objects.
type Named interface {
	Categories(app string) map[string]preference.Category
	SetCategory(ctx context.Context, app, name string, c preference.Category, must setting.Match) error
	DeleteCategory(ctx context.Context, app, name string, must setting.Match) error

	Services(app string) map[string]access.Service
	SetService(ctx context.Context, app, name string, s access.Service, must setting.Match) (access.Service, error)
	DeleteService(ctx context.Context, app, name string, must setting.Match) error

	Batches(app string) map[string]time.Duration
	SetBatch(ctx context.Context, app, group string, d time.Duration, must setting.Match) error
	DeleteBatch(ctx context.Context, app, group string, must setting.Match) error
}

// Parts hold all settings of the apps.
type Parts struct {
	Hooks   Hooks
	Sinks   Sinks
	Sources Sources
	Named   Named
}

// Place is an app's part of the settings.
type Place struct {
	Parts
	App string
}

// Kind is one kind of settings with its pages.
type Kind struct {
	Path string // of the pages: /ui/hooks
	API  string // path of the same settings in the API: /v1/hooks
	Name string // as the API's audit log calls it: hook
	One  string // in words: hook
	Here string // the part of the navigation
	Docs string // page of the documentation
	Back string // path of the page that lists them
	List string // name of that page

	About, Empty string // of a list of their own; empty: another page lists them

	NameField, NameWord, NameHint string // the name of one: in the API, in words, and what to know

	// KindIsName says that the name of a setting is its kind: an app has one of each.
	KindIsName bool
	// Kinds lists the kinds of which one can be made. Nil: all settings have the same fields.
	Kinds  func(ctx context.Context, p Place) ([]string, error)
	Inputs func(p Place, kind string, isNew bool) ([]Input, error)
	All    func(p Place) []Stored // nil: another page lists them
	Get    func(ctx context.Context, p Place, name string) (Stored, error)
	// Set makes or changes a setting. made is a generated secret, which nobody sees again.
	Set  func(ctx context.Context, p Place, name string, c Change) (made string, err error)
	Drop func(ctx context.Context, p Place, name string, must setting.Match) (left string, err error)
	// Undoes says that a deleted setting comes back as it was: it has neither a secret nor a place up to which it has got.
	Undoes bool

	// Previews reports whether a kind shows what a change would do, and Preview shows it. Nil: none does.
	Previews func(p Place, kind string) bool
	Preview  func(ctx context.Context, p Place, name string, c Change) (*Preview, error)
}

// Kinds lists all kinds, in the order of the pages that list them.
var Kinds = []*Kind{&hooks, &sinks, &sources, &categories, &services, &batches}

// Stored is a setting as it is stored. Its values may include secrets, which no page shows.
type Stored struct {
	Name, Kind string
	Values     setting.Values
	Secrets    []string // names of the secrets that are set
	Revision   string
	State      *Line // nil: it has none
}

// Change is what a form asks for.
type Change struct {
	Kind   string
	Values setting.Values
	Must   setting.Match
}

// Missing reports whether an error says that there is no such setting, or no such kind.
func Missing(err error) bool {
	for _, none := range []error{hook.ErrUnknown, sink.ErrUnknown, sink.ErrNone, source.ErrUnknown, source.ErrNone, access.ErrUnknownCategory, access.ErrUnknownService, access.ErrNoBatch} {
		if errors.Is(err, none) {
			return true
		}
	}
	return false
}

// Option is a value to choose.
type Option struct{ Value, Text string }

// Input is a field of a form of settings: a field of their kind, with what a person needs to fill it in.
type Input struct {
	setting.Field
	Word, Hint string   // empty: those of the field's name
	Like       string   // an example
	Options    []Option // the values to choose from: one of them, or of a list several
	Kept       bool     // a secret that can be replaced and not removed
	Anew       string   // label of the tick that makes a new secret; empty: the secret can be removed
	// write and read convert a value that a person writes in another form than the API's. Nil: they are the same.
	write func(raw json.RawMessage) string
	read  func(text string) (json.RawMessage, error)
}
