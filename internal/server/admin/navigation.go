package admin

import "godwit.dev/godwit/internal/access/signin"

// place is a page in the header. Here is the part of the navigation that the page itself names.
type place struct {
	Here, Path, Label string
	role              signin.Role
}

// placeGroup is a group of pages in the header: its name links to its first page.
type placeGroup struct {
	Label  string
	places []place
}

// navigation is the header, in the order of people's tasks: check the state, send something, inspect one notification. The pages for
// setting up follow, which are used less often.
var navigation = []placeGroup{
	{"Apps", []place{
		{"apps", appsPath, "Apps", signin.Operator},
		{"audit", "/ui/deeds", "Audit log", signin.Operator},
	}},
	{"Overview", []place{{"overview", "/ui/", "Overview", signin.View}}},
	{"Send", []place{
		{"campaigns", "/ui/campaigns", "Campaigns", signin.View},
		{"send", "/ui/send", "One notification", signin.Send},
		{"templates", templatesPath, "Templates", signin.View},
		{"segments", segmentsPath, "Segments", signin.View},
		{"audience", "/ui/audience", "Audience", signin.View},
		{"categories", "/ui/categories", "Categories", signin.View},
	}},
	{"Find", []place{{"recipients", "/ui/recipients", "Recipients", signin.View}}},
	{"Live", []place{
		{"objects", "/ui/objects", "Objects", signin.View},
		{"batches", "/ui/batches", "Batching", signin.View},
		{"topics", "/ui/topics", "Topics and workers", signin.View},
		{"gateway", "/ui/gateway", "Gateway", signin.View},
		{"services", "/ui/services", "Gateway services", signin.View},
	}},
	{"Connect", []place{
		{"channels", "/ui/channels", "Channels", signin.View},
		{"integrations", "/ui/integrations", "Hooks, sinks, sources", signin.View},
		{"app", ownPath, "This app", signin.Admin},
	}},
	{"People", []place{
		{"signed-in", "/ui/signed-in", "Signed in", signin.View},
		{"keys", "/ui/keys", "Keys", signin.Admin},
		{"sign-in-rules", "/ui/sign-in-rules", "Sign-in rules", signin.Admin},
		{"audit", "/ui/audit", "Audit log", signin.Admin},
	}},
	{"Server", []place{
		{"nodes", "/ui/nodes", "Nodes", signin.View},
		{"log", "/ui/log", "Log", signin.View},
		{"settings", "/ui/settings", "Settings", signin.Admin},
	}},
}

// keys holds the letter that leads to a page after g, by the part of the navigation that the page names.
var keys = map[string]string{"overview": "o", "campaigns": "c", "send": "n", "templates": "t", "segments": "s", "audience": "a", "recipients": "r", "channels": "h", "integrations": "i", "log": "l"}

// shortcut is a key that leads to a page.
type shortcut struct{ Key, Path, Label string }

// shortcutsOf lists the keys that lead to pages which a person may see.
func shortcutsOf(groups []placeGroup, who person) (all []shortcut) {
	for _, g := range groups {
		for _, p := range g.places {
			if key, ok := keys[p.Here]; ok && who.Role.May(p.role) {
				all = append(all, shortcut{key, p.Path, p.Label})
			}
		}
	}
	return all
}

// lead is a link of the header.
type lead struct {
	Path, Label string
	Current     string // value of aria-current; empty: none
}

// header holds the links that a person sees: all groups, and the pages of the current group.
type header struct {
	Groups []lead
	Within string // name of the current group
	Pages  []lead // empty if the group has a single page
}

func headerOf(groups []placeGroup, here string, who person) (h header) {
	for _, g := range groups {
		var pages []lead
		current := false
		for _, p := range g.places {
			if !who.Role.May(p.role) {
				continue
			}
			l := lead{Path: p.Path, Label: p.Label}
			if p.Here == here {
				l.Current, current = "page", true
			}
			pages = append(pages, l)
		}
		if len(pages) == 0 {
			continue
		}
		top := lead{Path: pages[0].Path, Label: g.Label, Current: pages[0].Current}
		if current && len(pages) > 1 {
			top.Current, h.Within, h.Pages = "true", g.Label, pages
		}
		h.Groups = append(h.Groups, top)
	}
	return h
}
