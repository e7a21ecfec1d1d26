package admin

import (
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/server/watch"
)

// mostListed limits the lists of these pages.
const mostListed = 200

// nodes is the page of the server's processes.
type nodes struct {
	Items   []watch.Node
	Working []working // the work of each node; empty: not known
	Owned   []watch.Lease
	Oldest  string // who keeps dead rows in the database; empty: nobody, or the person may not know
	Shown   int    // of what is owned
	Apart   bool
	Answer  string // the node that rendered the page
}

func (a *admin) showNodes(v *visit) error {
	known, err := a.Watch.Nodes(v.r.Context())
	if err != nil {
		return err
	}
	items, owned := known.List, known.Owned
	n := nodes{Items: items[:min(len(items), mostListed)], Answer: a.Watch.Node}
	if a.Watch.Sole(v.person.App) {
		n.Oldest = known.Oldest
	} else { // people of this app may not see other apps' names
		owned = slices.DeleteFunc(owned, func(l watch.Lease) bool { return !ofApp(l.Name, v.person.App) })
	}
	n.Owned, n.Shown = owned[:min(len(owned), mostListed)], min(len(owned), mostListed)
	for _, item := range items {
		n.Apart = n.Apart || item.Version != items[0].Version
	}
	n.Working = workOf(n.Items, owned)
	return a.show(v, "nodes", v.t("Nodes"), "nodes", n)
}

// working is the work of a node.
type working struct {
	Name string
	Owns int // leases
	*watch.NodeWork
}

func workOf(items []watch.Node, owned []watch.Lease) (list []working) {
	owns := make(map[string]int)
	for _, l := range owned {
		if !strings.HasPrefix(l.Name, "node/") { // the lease on its own name
			owns[l.Holder]++
		}
	}
	for _, item := range items {
		if item.Work != nil {
			list = append(list, working{item.Name, owns[item.Name], item.Work})
		}
	}
	return list
}

// journal is the page of refusals and warnings.
type journal struct {
	Kind   string // that is listed; empty: all
	Kinds  []string
	Items  []watch.Record
	Server bool // includes records about the server as a whole
	Node   string
}

func (a *admin) showLog(v *visit) error {
	j := journal{Kind: text(v.r.URL.Query(), "kind"), Kinds: []string{watch.Failure, watch.Warning, watch.Refused}, Server: a.Watch.Sole(v.person.App), Node: a.Watch.Node}
	if !slices.Contains(j.Kinds, j.Kind) {
		j.Kind = ""
	}
	for _, r := range a.Watch.Log(v.person.App, j.Server) {
		if j.Kind == "" || r.Kind == j.Kind {
			j.Items = append(j.Items, r)
		}
	}
	return a.show(v, "log", v.t("Log"), "log", j)
}

// settingGroup is a group of related settings.
type settingGroup struct {
	Name  string
	Items []watch.Setting
}

func (a *admin) showSettings(v *visit) error {
	var groups []settingGroup
	for _, s := range a.Watch.Settings() {
		i := slices.IndexFunc(groups, func(g settingGroup) bool { return g.Name == s.Group })
		if i < 0 {
			i = len(groups)
			groups = append(groups, settingGroup{Name: s.Group})
		}
		groups[i].Items = append(groups[i].Items, s)
	}
	return a.show(v, "settings", v.t("Settings"), "settings", groups)
}

// ofApp reports whether a lease is for an app: it is named like hooks/shop.
func ofApp(name, app string) bool {
	for i := range name {
		if name[i] == '/' {
			return name[i+1:] == app
		}
	}
	return false
}

// withoutQuery returns a URL without its secrets: credentials stand before its host or after the question mark.
func withoutQuery(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "not a URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return clip(u.String(), 200)
}
