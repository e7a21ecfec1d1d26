package call

import (
	"net/url"
	"slices"
	"strconv"

	"godwit.dev/godwit/internal/notify/notification"
)

// Pages of lists.
const (
	defaultPage = 100
	maxPage     = 1000 // one answer stays well under a megabyte
)

// Params parses the query and refuses parameters that the route does not have. It always allows app.
func (c *Call) Params(known ...string) (url.Values, error) {
	if c.R.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return nil, notification.BadField("query", "cannot be parsed: %s", notification.Clip(err.Error()))
	}
	for name, vs := range q {
		if name != "app" && !slices.Contains(known, name) {
			return nil, notification.BadField(notification.Clip(name), "is not a known parameter")
		}
		if len(vs) > 1 {
			return nil, notification.BadField(name, "is given twice")
		}
	}
	return q, nil
}

// ListParams is Params for a list, which also has limit and cursor; it returns the limit as a number.
func (c *Call) ListParams(known ...string) (q url.Values, limit int, err error) {
	if q, err = c.Params(append(known, "limit", "cursor")...); err != nil {
		return nil, 0, err
	}
	limit, err = Page(q)
	return q, limit, err
}

// Page reads limit.
func Page(q url.Values) (int, error) {
	if !q.Has("limit") {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 || n > maxPage {
		return 0, notification.BadField("limit", "must be a number from 1 to %d", maxPage)
	}
	return n, nil
}
