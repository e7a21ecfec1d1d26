package httpapi

import (
	"net/url"
	"slices"
	"strconv"
)

// Pages of lists.
const (
	defaultPage = 100
	maxPage     = 1000 // one answer stays well under a megabyte
)

// params parses the query and refuses parameters that the route does not know. app is always known: see authenticate.
func (c *call) params(known ...string) (url.Values, error) {
	if c.r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, badField("query", "cannot be parsed: %s", clip(err.Error()))
	}
	for name, vs := range q {
		if name != "app" && !slices.Contains(known, name) {
			return nil, badField(clip(name), "is not a known parameter")
		}
		if len(vs) > 1 {
			return nil, badField(name, "is given twice")
		}
	}
	return q, nil
}

// page reads limit.
func page(q url.Values) (int, error) {
	if !q.Has("limit") {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 || n > maxPage {
		return 0, badField("limit", "must be a number from 1 to %d", maxPage)
	}
	return n, nil
}
