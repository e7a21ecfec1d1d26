package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of one step of an undone import.
const (
	undoFor      = 3 * time.Second
	undoneAtOnce = 500 // endpoints read
	undoneBeside = 32  // deleted at a time: they share commits
)

// importUndo is what finds the endpoints that an import made: they have its tag, and were made while it ran.
type importUndo struct {
	Tag          string
	Since, Until int64 // Unix time in milliseconds
	After        int64 // number of the last endpoint that was looked at
	Deleted      int64
	More         bool // there are more to look at
}

// undoable offers to undo an import that has made endpoints. One without a tag cannot be undone: nothing tells its endpoints from others.
func (t *tableImport) undoable(now time.Time) {
	if t.Created > 0 && t.Tag != "" {
		t.Undo = &importUndo{Tag: t.Tag, Since: t.started.UnixMilli(), Until: now.UnixMilli()}
	}
}

// undoImport deletes endpoints that an import made, for a while; the page goes on by itself until all are gone. Endpoints that existed
// before stay, with the values that the import gave them: the store does not keep the former ones.
func (a *admin) undoImport(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	f := v.r.PostForm
	u := &importUndo{Tag: text(f, "tag")}
	for name, into := range map[string]*int64{"since": &u.Since, "until": &u.Until, "after": &u.After, "deleted": &u.Deleted} {
		n, err := strconv.ParseInt(f.Get(name), 10, 64)
		if err != nil && f.Has(name) || n < 0 {
			return mistaken(http.StatusBadRequest, "The form could not be read.")
		}
		*into = n
	}
	who := audience.Audience{TagsAll: []string{u.Tag}}
	sel, err := who.Select("")
	if err != nil {
		return explain(err)
	}
	if err := a.undoSome(v.r.Context(), v.person.App, sel, u); err != nil {
		return err
	}
	if !u.More {
		a.Log.InfoContext(v.r.Context(), "import undone on the web page", "app", v.person.App, "tag", u.Tag, "deleted", u.Deleted, "by", v.person.Name())
	}
	v.made = u.Tag
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "import", "undone", u)
	}
	return a.show(v, "import", v.t("Import"), "audience", &tableImport{Channels: push.Channels(), Undone: u})
}

// undoSome deletes until undoFor has passed.
func (a *admin) undoSome(ctx context.Context, app string, sel *audience.Selection, u *importUndo) error {
	for until := a.now().Add(undoFor); ; {
		list, next, more, err := a.Audience.List(ctx, app, "", sel, u.After, undoneAtOnce)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(e audience.Endpoint) bool {
			made := e.CreatedAt.UnixMilli()
			return made < u.Since || made > u.Until
		})
		var all errgroup.Group
		all.SetLimit(undoneBeside)
		for i := range list {
			all.Go(func() error {
				if err := a.Audience.Delete(ctx, app, list[i].ID); !errors.Is(err, audience.ErrNotFound) {
					return err
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
		u.Deleted += int64(len(list))
		if u.After, u.More = next, more; !more || a.now().After(until) {
			return nil
		}
	}
}
