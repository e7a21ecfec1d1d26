package admin

import (
	"net/url"
	"strconv"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
)

const entriesAPage = 100

// diary is a page of the audit log.
type diary struct {
	Path       string // of this page
	Action, By string // only entries with these are listed; empty: all
	Items      []did
	Older      string // cursor of the next page; empty: there are no more entries
}

// did is an entry, with the purpose of the key that did it.
type did struct {
	audit.Entry
	Key string
}

func (a *admin) listAudit(v *visit) error {
	q := v.r.URL.Query()
	d := diary{Path: v.r.URL.Path, Action: text(q, "deed"), By: text(q, "by")}
	var list []audit.Entry
	if a.Audit != nil {
		var err error
		list, err = a.Audit.List(v.r.Context(), v.person.App, audit.Filter{Before: position(q.Get("cursor")), Action: d.Action, By: d.By}, entriesAPage)
		if err != nil {
			return err
		}
	}
	uses := keyNames(a.Access.Keys(v.person.App))
	for i := range list {
		d.Items = append(d.Items, did{list[i], uses[list[i].By]})
	}
	if len(list) == entriesAPage {
		d.Older = d.Path + "?" + url.Values{"deed": {d.Action}, "by": {d.By}, "cursor": {strconv.FormatInt(list[len(list)-1].ID, 10)}}.Encode()
	}
	return a.show(v, "audit", v.t("Audit log"), "audit", d)
}

// keyNames returns the purposes of keys by their ids.
func keyNames(keys []access.Key) map[string]string {
	names := make(map[string]string, len(keys))
	for _, k := range keys {
		names[k.ID] = k.Name
	}
	return names
}
