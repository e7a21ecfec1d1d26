package segment

import (
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
)

// Reader runs queries on a transaction of the store. Most queries differ, since they are built from expressions, so preparing them is not
// worthwhile.
type Reader interface {
	// Number reads one number; found is false if there is no row.
	Number(query Clause) (n int64, found bool, err error)
	// Endpoints reads rows of endpointrow.Columns.
	Endpoints(query Clause) ([]audience.Endpoint, error)
	// Channels reads rows of a channel and a number.
	Channels(query Clause) (map[push.Channel]int64, error)
}

// Limits of the index entries that one query examines: a rare condition yields short pages instead of long queries.
const (
	minWindow   = 5000 // of a campaign's, at least
	listWindow  = 200  // of what somebody waits for
	countWindow = 5000 // entries counted in one step while a caller waits
)

// Select returns the next active endpoints of a selection after a number, in the order of numbers. A page may be short or empty although
// more endpoints follow: then more is true, and next is where to continue.
func Select(r Reader, d *Dialect, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	p, err := newPlan(r, d, app, sel, true)
	if err != nil {
		return nil, after, false, err
	}
	return p.step(r, after, max(minWindow, 10*limit), limit)
}

// step returns the endpoints among the scan's next entries, as many as entries says.
func (p *Plan) step(r Reader, after int64, entries, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	upto, more, err := p.upto(r, after, entries)
	if err != nil {
		return nil, after, false, err
	}
	if list, err = r.Endpoints(p.page(after, upto, entries, limit)); err != nil {
		return nil, after, false, err
	}
	if len(list) == limit {
		return list, list[limit-1].Number, true, nil
	}
	return list, upto, more, nil
}

// upto returns the number of the last of the scan's next entries, as many as entries says; more is false if there are fewer.
func (p *Plan) upto(r Reader, after int64, entries int) (upto int64, more bool, err error) {
	upto, more, err = r.Number(p.window(after, entries))
	if !more {
		upto = 1<<63 - 1
	}
	return upto, more, err
}

// List is Select for a waiting caller: it works in shorter steps, and examines at most endpoint.ListLooks entries.
func List(r Reader, d *Dialect, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	p, err := newPlan(r, d, app, sel, true)
	if err != nil {
		return nil, after, false, err
	}
	next, more = after, true
	for looked := 0; more && len(list) < limit && looked < endpoint.ListLooks; looked += listWindow {
		var found []audience.Endpoint
		if found, next, more, err = p.step(r, next, listWindow, limit-len(list)); err != nil {
			return nil, after, false, err
		}
		list = append(list, found...)
	}
	return list, next, more, nil
}

// Count counts the active endpoints of a selection by channel. all has the app's counts by channel, which stores maintain.
func Count(r Reader, d *Dialect, app string, sel *audience.Selection, all map[push.Channel]int64) (map[push.Channel]int64, error) {
	known, sel, ok := counted(sel, all)
	if ok {
		return known, nil
	}
	p, err := newPlan(r, d, app, sel, false)
	if err != nil {
		return nil, err
	}
	return r.Channels(p.count(known))
}

// counted answers a count from the app's counts by channel alone, if these suffice. Otherwise ok is false; known then has the channels to
// distinguish, and rest the remaining conditions.
func counted(sel *audience.Selection, all map[push.Channel]int64) (known map[push.Channel]int64, rest *audience.Selection, ok bool) {
	if len(sel.Channels) > 0 {
		asked := make(map[push.Channel]int64, len(sel.Channels))
		for _, ch := range sel.Channels {
			if n, ok := all[ch]; ok {
				asked[ch] = n
			}
		}
		bare := len(Conditions(sel)) == 0 && len(sel.Recipients) == 0 && len(sel.Endpoints) == 0
		if len(asked) == 0 || bare {
			return asked, sel, true
		}
		if len(asked) == len(all) { // all of the app's channels are requested, so channels are no condition
			all, sel = asked, &audience.Selection{Recipients: sel.Recipients, Endpoints: sel.Endpoints, TagsAny: sel.TagsAny, TagsAll: sel.TagsAll, Where: sel.Where}
		}
	}
	return all, sel, len(Conditions(sel)) == 0 && len(sel.Recipients) == 0 && len(sel.Endpoints) == 0 && len(sel.Channels) == 0
}

// CountPart counts the active endpoints of a selection among the next entries of its scan after a number.
func CountPart(r Reader, d *Dialect, app string, sel *audience.Selection, all map[push.Channel]int64, after int64) (part endpoint.Part, err error) {
	known, sel, ok := counted(sel, all)
	if ok {
		for _, n := range known {
			part.Count += n
		}
		return part, nil
	}
	p, err := newPlan(r, d, app, sel, true)
	if err != nil {
		return part, err
	}
	upto, more, err := p.upto(r, after, countWindow)
	if err != nil {
		return part, err
	}
	if part.Count, _, err = r.Number(d.Among(p, CountOf, after, upto, countWindow)); err != nil {
		return part, err
	}
	if more {
		part.Next, part.Looked = upto, countWindow
	}
	return part, nil
}

// Look filters endpoints of any status one by one by a selection, in the order of numbers above after: tags and attributes index only
// active endpoints. read returns the next endpoints, in the selection or not. A page may be short although more endpoints follow: then more
// is true, and next is where to continue.
func Look(sel *audience.Selection, after int64, limit int, read func(after int64, limit int) ([]audience.Endpoint, error)) (list []audience.Endpoint, next int64, more bool, err error) {
	next, more = after, true
	for looked := 0; more && len(list) < limit && looked < endpoint.ListLooks; looked += listWindow {
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
