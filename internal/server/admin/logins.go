package admin

import (
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access/signin"
)

// lobby is the page of signed-in people.
type lobby struct {
	Items  []guest
	Others int  // number of logins other than this one that the person may end
	Switch bool // see maySwitch
}

type guest struct {
	ID          string
	Who, Key    string // Key is the key's purpose; empty for a login without a key
	Role        signin.Role
	Since, Seen time.Time
	Address     string
	Browser     string
	Here        bool // this page belongs to the login
}

// mayEnd reports whether a person may see and end a login: people their own, an admin all of the app's.
func mayEnd(v *visit, s *signin.Login) bool {
	return v.person.Role.May(signin.Admin) || v.person.Same(s.Person)
}

// loginsFor lists the logins that a person may see.
func (a *admin) loginsFor(v *visit) ([]signin.Login, error) {
	list, err := a.Logins.Of(v.r.Context(), v.person.App)
	return slices.DeleteFunc(list, func(s signin.Login) bool { return !mayEnd(v, &s) }), err
}

func (a *admin) listLogins(v *visit) error {
	list, err := a.loginsFor(v)
	if err != nil {
		return err
	}
	uses := keyNames(a.Access.Keys(v.person.App))
	l := lobby{Switch: a.maySwitch(v)}
	for i := range list {
		s := &list[i]
		l.Items = append(l.Items, guest{
			ID: s.ID, Who: s.Name(), Key: uses[s.Key], Role: s.Role, Since: s.Since, Seen: s.Seen, Address: s.Address, Browser: s.Browser, Here: s.ID == v.login,
		})
		if s.ID != v.login {
			l.Others++
		}
	}
	if len(l.Items) > mostLogins {
		l.Items = l.Items[:mostLogins]
	}
	return a.show(v, "stays", v.t("Signed in"), "signed-in", l)
}

// maySwitch reports whether the person comes from a provider, and so may choose another app there.
func (a *admin) maySwitch(v *visit) bool { return a.Provider != nil && v.person.Key == "" }

// mostLogins limits the logins listed.
const mostLogins = 200

// endLogin signs one browser out.
func (a *admin) endLogin(v *visit) error {
	id := v.r.PathValue("id")
	return a.endLogins(v, func(s *signin.Login) bool { return s.ID == id })
}

// endOtherLogins ends all logins that the person may end, except this one.
func (a *admin) endOtherLogins(v *visit) error {
	return a.endLogins(v, func(s *signin.Login) bool { return s.ID != v.login })
}

func (a *admin) endLogins(v *visit, which func(*signin.Login) bool) error {
	list, err := a.loginsFor(v)
	if err != nil {
		return err
	}
	var ids []string
	for i := range list {
		if which(&list[i]) {
			ids = append(ids, list[i].ID)
		}
	}
	if len(ids) == 0 {
		return mistaken(http.StatusNotFound, "Nobody is signed in there any more.")
	}
	n, err := a.Logins.End(v.r.Context(), v.person.App, ids...)
	if err != nil {
		return err
	}
	a.Log.InfoContext(v.r.Context(), "signed out on the web page", "app", v.person.App, "by", v.person.Name(), "stays", n)
	a.leadTo(v, "/ui/signed-in", http.StatusOK)
	return nil
}
