package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
)

// Keys reads and changes an app's keys for the pages.
type Keys interface {
	CreateKey(ctx context.Context, app, name string, roles access.Role) (access.Key, string, error)
	DeleteKey(ctx context.Context, app, id string) error
	MintToken(app string, req access.TokenRequest) (text string, expires time.Time, err error)
}

// mostKeys limits the keys listed.
const mostKeys = 200

// keyPage lists an app's keys, and shows a new key or token.
type keyPage struct {
	Items []keyLine
	More  bool
	Made  *madeKey
	Token *madeToken
}

type keyLine struct {
	access.Key
	Does string // its roles
	Own  bool   // the person signed in with this key
}

// madeKey is a new key with its secret, which is shown only once.
type madeKey struct {
	Name, ID, Roles, Secret string
	Replaces                string // id of the key in whose place it was made; empty: none
}

// madeToken is a client's token.
type madeToken struct {
	Recipient, Text string
	Expires         time.Time
}

func (a *admin) listKeys(v *visit) error { return a.showKeys(v, &keyPage{}) }

func (a *admin) showKeys(v *visit, p *keyPage) error {
	a.fillKeys(v, p)
	return a.show(v, "keys", v.t("Keys"), "keys", p)
}

// fillKeys lists the newest first.
func (a *admin) fillKeys(v *visit, p *keyPage) {
	keys := a.Access.Keys(v.person.App)
	slices.Reverse(keys)
	p.More = len(keys) > mostKeys
	for _, k := range keys[:min(len(keys), mostKeys)] {
		p.Items = append(p.Items, keyLine{k, k.Roles.String(), k.ID == v.person.Key})
	}
}

// madeKeys shows a new key or token, as a whole page or as the part that htmx replaces.
func (a *admin) madeKeys(v *visit, p *keyPage) error {
	if v.r.Header.Get("HX-Request") == "" {
		return a.showKeys(v, p)
	}
	a.fillKeys(v, p)
	return a.part(v, "keys", "made", p)
}

// createKey makes a key. This answer alone contains its secret.
func (a *admin) createKey(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	roles, err := access.ParseRoles(v.r.PostForm["role"])
	if err != nil {
		return explain(err)
	}
	k, secret, err := a.Keys.CreateKey(v.r.Context(), v.person.App, text(v.r.PostForm, "name"), roles)
	if err != nil {
		return explain(err)
	}
	v.made = k.ID
	return a.madeKeys(v, &keyPage{Made: &madeKey{Name: k.Name, ID: k.ID, Roles: roles.String(), Secret: secret}})
}

func (a *admin) deleteKey(v *visit) error {
	id := v.r.PathValue("id")
	if notification.CheckName("id", id) != nil {
		return mistaken(http.StatusNotFound, noSuchKey)
	}
	err := a.Keys.DeleteKey(v.r.Context(), v.person.App, id)
	if errors.Is(err, access.ErrUnknownKey) {
		return mistaken(http.StatusNotFound, noSuchKey)
	}
	if err != nil {
		return err
	}
	a.leadTo(v, "/ui/keys", http.StatusOK)
	return nil
}

const noSuchKey = "There is no such key. Somebody else may have deleted it."

// mintToken makes a client's token, as godwit token does.
func (a *admin) mintToken(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	f := v.r.PostForm
	ttl, err := notification.ParseDuration(text(f, "ttl"))
	if err != nil {
		return explain(notification.BadField("ttl", "must be a duration like 24h or 7d"))
	}
	req := access.TokenRequest{Recipient: text(f, "recipient"), Group: text(f, "group"), Device: text(f, "device"), Topics: commaList(f, "topics"), TTL: ttl}
	token, expires, err := a.Keys.MintToken(v.person.App, req)
	if err != nil {
		return explain(err)
	}
	v.made = req.Recipient
	return a.madeKeys(v, &keyPage{Token: &madeToken{Recipient: req.Recipient, Text: token, Expires: expires}})
}
