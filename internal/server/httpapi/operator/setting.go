package operator

import (
	"cmp"
	"net/http"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// revised is a part of settings in answers. The revision is the ETag; nil: the setting does not exist yet.
type revised struct {
	Revision *string `json:"revision"`
}

func atRevision(r string) revised { return revised{call.OrNull(r)} }

func (r revised) tag() *string { return r.Revision }

// settings implements the calls for one kind of an app's settings. Each setting has a name. An app has few of a kind, so a list is one
// page.
type settings[V interface{ tag() *string }] struct {
	kind  string      // in the audit log: hook
	what  string      // the kind's name in the log, and its key there; empty: kind
	path  string      // of the list: /v1/hooks
	name  string      // wildcard of the name in the path
	most  int64       // bytes of a body
	write access.Role // that changes need; 0: admin
	check func(name string) error
	list  func(c *call.Call) ([]V, error)
	get   func(c *call.Call, name string) (V, error)
	set   func(c *call.Call, name string, body []byte, must setting.Match) (v V, created bool, err error)
	drop  func(c *call.Call, name string, must setting.Match) error // may answer
}

func (s settings[V]) routes(a *API) []call.Route {
	one, write := s.path+"/{"+s.name+"}", cmp.Or(s.write, access.Admin)
	return []call.Route{
		{Pattern: "GET " + s.path, Role: access.Read, Operator: call.AnyApp, Serve: func(c *call.Call) error {
			if _, err := c.Params(); err != nil {
				return err
			}
			items, err := s.list(c)
			if err != nil {
				return err
			}
			l := call.NewList[V](len(items), "")
			l.Items = append(l.Items, items...)
			return c.Value(http.StatusOK, l)
		}},
		{Pattern: "GET " + one, Role: access.Read, Operator: call.AnyApp, Serve: s.named(func(c *call.Call, name string) error {
			v, err := s.get(c, name)
			if err != nil {
				return err
			}
			return showRevised(c, http.StatusOK, v)
		})},
		{Pattern: "PUT " + one, Role: write, Operator: call.AnyApp, Action: s.kind + ".set", Serve: s.named(func(c *call.Call, name string) error {
			must, err := c.Match()
			if err != nil {
				return err
			}
			body, err := call.ReadBody(c.R, nil, s.most)
			if err != nil {
				return err
			}
			v, created, err := s.set(c, name, body, must)
			if err != nil {
				return err
			}
			s.log(a, c, name, "set")
			if created {
				return showRevised(c, http.StatusCreated, v)
			}
			return showRevised(c, http.StatusOK, v)
		})},
		{Pattern: "DELETE " + one, Role: write, Operator: call.AnyApp, Action: s.kind + ".delete", Serve: s.named(func(c *call.Call, name string) error {
			must, err := c.Match()
			if err == nil {
				err = s.drop(c, name, must)
			}
			if err != nil {
				return err
			}
			s.log(a, c, name, "deleted")
			if c.Status != 0 {
				return nil // drop has answered
			}
			return c.NoContent()
		})},
	}
}

// showRevised answers with a setting.
func showRevised[V interface{ tag() *string }](c *call.Call, status int, v V) error {
	if tag := v.tag(); tag != nil {
		c.W.Header().Set("ETag", strconv.Quote(*tag))
	}
	return c.Value(status, v)
}

// named makes a call that serves the setting named by the path.
func (s settings[V]) named(serve func(c *call.Call, name string) error) func(c *call.Call) error {
	return func(c *call.Call) error {
		if _, err := c.Params(); err != nil {
			return err
		}
		name := c.R.PathValue(s.name)
		if s.check != nil {
			if err := s.check(name); err != nil {
				return err
			}
		}
		return serve(c, name)
	}
}

func (s settings[V]) log(a *API, c *call.Call, name, did string) {
	what := s.what
	if what == "" {
		what = s.kind
	}
	a.Log.InfoContext(c.Ctx, what+" "+did, "app", c.Key.App, s.kind, name, "by", c.Key.Key) //nolint:sloglint // two messages a kind
}

// views returns the view of each element of a list.
func views[I, V any](list []I, view func(*I) V) []V {
	items := make([]V, len(list))
	for i := range list {
		items[i] = view(&list[i])
	}
	return items
}
