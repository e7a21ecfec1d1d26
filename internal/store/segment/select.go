package segment

import (
	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
)

// Reader runs queries, on whatever transaction it has. They are made of expressions, of which there is no end: none is worth keeping
// prepared.
type Reader interface {
	// Number reads one number; found is false if there is no row.
	Number(query Clause) (n int64, found bool, err error)
	// Endpoints reads rows of endpointrow.Columns.
	Endpoints(query Clause) ([]audience.Endpoint, error)
	// Channels reads rows of a channel and a number.
	Channels(query Clause) (map[push.Channel]int64, error)
}

// minWindow is how many entries of an index one page looks at, at least: a condition that few meet ends with short
// pages rather than with long queries.
const minWindow = 5000

// Select reads the next active endpoints of a selection after a number, in the order of numbers. A page may be short or
// empty although more follow: more says so, and next is where to go on.
func Select(r Reader, d *Dialect, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	p, err := newPlan(r, d, app, sel, true)
	if err != nil {
		return nil, after, false, err
	}
	entries := max(minWindow, 10*limit)
	upto, more, err := r.Number(p.window(after, entries))
	if err != nil {
		return nil, after, false, err
	}
	if !more {
		upto = 1<<63 - 1
	}
	if list, err = r.Endpoints(d.Page(p, after, upto, entries, limit)); err != nil {
		return nil, after, false, err
	}
	if len(list) == limit {
		return list, list[limit-1].Number, true, nil
	}
	return list, upto, more, nil
}

// Count counts the active endpoints of a selection by channel. all is how many the app has by channel, which stores keep.
func Count(r Reader, d *Dialect, app string, sel *audience.Selection, all map[push.Channel]int64) (map[push.Channel]int64, error) {
	if len(sel.Channels) > 0 {
		asked := make(map[push.Channel]int64, len(sel.Channels))
		for _, ch := range sel.Channels {
			if n, ok := all[ch]; ok {
				asked[ch] = n
			}
		}
		if len(asked) == len(all) { // there are no others to tell them from
			all, sel = asked, &audience.Selection{Recipients: sel.Recipients, Endpoints: sel.Endpoints, TagsAny: sel.TagsAny, TagsAll: sel.TagsAll, Where: sel.Where}
		}
		if len(asked) == 0 {
			return asked, nil
		}
	}
	if len(Conditions(sel)) == 0 && len(sel.Recipients) == 0 && len(sel.Endpoints) == 0 && len(sel.Channels) == 0 {
		return all, nil
	}
	p, err := newPlan(r, d, app, sel, false)
	if err != nil {
		return nil, err
	}
	return r.Channels(p.count(all))
}

// Endpoints of any status are looked through one by one, since only active ones can be found by tags and attributes.
const (
	listWindow = 500  // read at once
	listMost   = 1000 // looked through for one page, which may then be short: somebody waits for it
)

// Look looks through endpoints for those that are in a selection, in the order of numbers after one. read reads the next
// endpoints, in or not. A page may be short although more follow: more says so, and next is where to go on.
func Look(sel *audience.Selection, after int64, limit int, read func(after int64, limit int) ([]audience.Endpoint, error)) (list []audience.Endpoint, next int64, more bool, err error) {
	next, more = after, true
	for looked := 0; more && len(list) < limit && looked < listMost; looked += listWindow {
		window, err := read(next, listWindow)
		if err != nil {
			return nil, after, false, err
		}
		more = len(window) == listWindow
		for i := range window {
			if len(list) == limit {
				more = true
				break
			}
			next = window[i].Number
			if sel.Match(&window[i]) {
				list = append(list, window[i])
			}
		}
	}
	return list, next, more, nil
}
