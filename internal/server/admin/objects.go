package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

// Objects reads an app's objects and their registrations.
type Objects interface {
	Get(ctx context.Context, app string, k object.Key) (st object.State, ok bool, err error)
	List(ctx context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, next string, err error)
	Groups(ctx context.Context, app, after string, limit int) (groups []string, next string, err error)
	// Watching lists the registrations for an object in parts of at most most, those of clients connected to this node first.
	Watching(ctx context.Context, app string, k object.Key, after int64, most int) (found []signal.Registration, more bool, next int64, err error)
}

// Rows of a page.
const (
	groupsAPage  = 50
	objectsAPage = 50
)

// objectList is the page of the groups, or of the objects in one group.
type objectList struct {
	Group, Prefix string
	Groups        []string
	Items         []objectstore.Item
	Next          string // path of the next page; empty: there is none
}

func (a *admin) listObjects(v *visit) error {
	q := v.r.URL.Query()
	ctx, app, cursor := v.r.Context(), v.person.App, q.Get("cursor")
	l := objectList{Group: text(q, "group"), Prefix: text(q, "prefix")}
	for _, name := range []string{l.Group, l.Prefix, cursor} {
		if name != "" && notification.CheckPart("name", name) != nil {
			return a.show(v, "objects", v.t("Objects"), "objects", l) // none is called so
		}
	}
	var err error
	var next string
	if l.Group == "" {
		l.Groups, next, err = a.Objects.Groups(ctx, app, cursor, groupsAPage)
	} else {
		l.Items, next, err = a.Objects.List(ctx, app, l.Group, l.Prefix, cursor, objectsAPage)
	}
	if err != nil {
		return err
	}
	if next != "" {
		l.Next = "/ui/objects?" + url.Values{"group": {l.Group}, "prefix": {l.Prefix}, "cursor": {next}}.Encode()
	}
	return a.show(v, "objects", v.t("Objects"), "objects", l)
}

// objectPage is one object, with the clients that are registered for it.
type objectPage struct {
	Key     object.Key
	State   object.State
	Payload string
	Only    string // filter of the listed clients: behind, or those with a version; empty: all
	Asked   string // the version asked for in the filter
	Units   []unit
	Have    int // number of the Looked clients that have the object's version
	Looked  int
	Further bool   // more clients are connected than were read
	Next    string // path of the next page; empty: there is none
}

// unit is a client as the page of an object lists it.
type unit struct {
	signal.Registration
	Behind bool
}

func (a *admin) showObject(v *visit) error {
	k := object.Key{Group: v.r.PathValue("group"), Object: v.r.PathValue("object")}
	if notification.CheckName("group", k.Group) != nil || notification.CheckName("object", k.Object) != nil {
		return mistaken(http.StatusNotFound, noSuchObject)
	}
	ctx, app, q := v.r.Context(), v.person.App, v.r.URL.Query()
	p := objectPage{Key: k, Only: text(q, "only"), Asked: text(q, "version")}
	var ok bool
	var err error
	if p.State, ok, err = a.Objects.Get(ctx, app, k); err != nil {
		return err
	}
	if !ok {
		return mistaken(http.StatusNotFound, noSuchObject)
	}
	p.Payload = payloadText(p.State.Payload)
	found, more, next, err := a.Objects.Watching(ctx, app, k, position(q.Get("cursor")), mostRows)
	if err != nil {
		return err
	}
	p.list(found)
	if p.Further = more; next > 0 {
		p.Next = objectURL(k) + "?" + url.Values{"only": {p.Only}, "version": {p.Asked}, "cursor": {strconv.FormatInt(next, 10)}}.Encode()
	}
	return a.show(v, "object", k.Object, "objects", p)
}

const noSuchObject = "There is no such object. One is there from the first version that is put on."

// list adds the registrations that pass the page's filter.
func (p *objectPage) list(found []signal.Registration) {
	p.Looked = len(found)
	for _, r := range found {
		u := unit{r, r.Acked < p.State.Version}
		if !u.Behind {
			p.Have++
		}
		wanted := p.Only != "behind" || u.Behind
		if p.Asked != "" {
			wanted = wanted && r.Acked.String() == p.Asked
		}
		if !wanted {
			continue
		}
		if len(p.Units) == mostListed {
			p.Further = true
			continue
		}
		p.Units = append(p.Units, u)
	}
}

// mostPayload limits the shown part of a payload, in bytes.
const mostPayload = 4 << 10

func payloadText(b []byte) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("%d bytes that are no text", len(b))
	}
	return clip(string(b), mostPayload)
}

func objectURL(k object.Key) string {
	return "/ui/objects/" + url.PathEscape(k.Group) + "/" + url.PathEscape(k.Object)
}
