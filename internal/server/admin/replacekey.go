package admin

import (
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/access"
)

// replaceKey makes a key with the name and the roles of another, whose secret somebody has lost. Both work until the former is deleted, so that
// programs change over without a gap. This answer alone contains the secret.
func (a *admin) replaceKey(v *visit) error {
	keys := a.Access.Keys(v.person.App)
	i := slices.IndexFunc(keys, func(k access.Key) bool { return k.ID == v.r.PathValue("id") })
	if i < 0 {
		return mistaken(http.StatusNotFound, noSuchKey)
	}
	former := keys[i]
	k, secret, err := a.Keys.CreateKey(v.r.Context(), v.person.App, former.Name, former.Roles)
	if err != nil {
		return explain(err)
	}
	v.made = k.ID
	return a.madeKeys(v, &keyPage{Made: &madeKey{Name: k.Name, ID: k.ID, Roles: k.Roles.String(), Secret: secret, Replaces: former.ID}})
}
