// Package template holds what messages are made of: contents with variables and languages, how they are filled in for a
// person, and those that an app has stored under a name for its publishes and campaigns.
//
// An accepted publish or campaign has a copy of its template's text: a later change of the template does not reach it.
package template

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// MaxTemplates limits the templates of an app, which have at most 6 MB together.
const MaxTemplates = 200

// MaxVersions limits the kept revisions of a template, the present one included: 200 templates have at most 128 MB together.
const MaxVersions = 20

// Errors of templates.
var (
	ErrUnknown = errors.New("no such template")
	// ErrRevision: the template was changed meanwhile.
	ErrRevision = errors.New("the template is at another revision")
)

// RevisionError reports a change that was meant for another revision than the current one. It matches ErrRevision.
type RevisionError struct {
	Name string
	Have int64 // 0: there is none
}

func (e *RevisionError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("there is no template %s", e.Name)
	}
	return fmt.Sprintf("template %s is at revision %d: read it, and change that", e.Name, e.Have)
}

// Is makes it an ErrRevision.
func (e *RevisionError) Is(target error) bool { return target == ErrRevision }

// Template is a content stored under a name.
type Template struct {
	App, Name string
	Revision  int64 // from 1; each change adds 1
	Content   Content
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Store keeps templates.
type Store interface {
	// Template fails with ErrUnknown if there is none of this name.
	Template(ctx context.Context, app, name string) (*Template, error)
	// Templates returns up to limit templates in the order of names, beginning after a name.
	Templates(ctx context.Context, app, after string, limit int) ([]Template, error)
	// UpdateTemplate changes or creates a template (a new one has revision 0) in one transaction; others is the number of the app's other
	// templates. It fails with access.ErrUnknownApp if the app does not exist.
	UpdateTemplate(ctx context.Context, app, name string, change func(t *Template, others int) error) error
	// TemplateVersions reads the kept revisions of a template, at most MaxVersions, the newest first. They have no CreatedAt. The list is
	// empty if there is no template.
	TemplateVersions(ctx context.Context, app, name string) ([]Template, error)
	// DeleteTemplate deletes a template and its revisions unless check returns an error. It fails with ErrUnknown if there is none of this name.
	DeleteTemplate(ctx context.Context, app, name string, check func(*Template) error) error
}

// Match is the revision that a change is meant for. The zero value matches any revision, and a missing template.
type Match struct {
	Revision int64 // 0: whichever
	There    bool  // there must be one
	New      bool  // there must be none
}

func (m Match) check(t *Template) error {
	switch {
	case m.Revision != 0 && m.Revision != t.Revision, m.There && t.Revision == 0, m.New && t.Revision != 0:
		return &RevisionError{Name: t.Name, Have: t.Revision}
	}
	return nil
}

// CheckName validates a template's name.
func CheckName(field, name string) error { return notification.CheckName(field, name) }
