package call

import (
	"strings"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// IfMatch returns the tag in If-Match (RFC 9110, section 13.1.1); nil: any will do.
func (c *Call) IfMatch() (*string, error) {
	vs := c.R.Header["If-Match"]
	switch {
	case len(vs) == 0, len(vs) == 1 && vs[0] == "*":
		return nil, nil
	case len(vs) > 1:
		return nil, notification.BadField("If-Match", "is given twice")
	}
	tag, begins := strings.CutPrefix(vs[0], `"`)
	tag, ends := strings.CutSuffix(tag, `"`)
	if !begins || !ends || strings.ContainsAny(tag, `",`) {
		return nil, notification.BadField("If-Match", `must be * or one revision, like "lx2m4f-3"`)
	}
	return &tag, nil
}

// Match reads the revision that a request requires: that in If-Match, or with "If-None-Match: *" none.
func (c *Call) Match() (setting.Match, error) {
	tag, err := c.IfMatch()
	none := c.R.Header.Values("If-None-Match")
	switch {
	case err != nil:
		return setting.Match{}, err
	case len(none) > 0 && tag != nil:
		return setting.Match{}, notification.BadField("If-None-Match", "contradicts If-Match: give one")
	case len(none) > 1 || len(none) == 1 && none[0] != "*":
		return setting.Match{}, notification.BadField("If-None-Match", "must be *: only if there is none yet")
	case len(none) == 1:
		return setting.Exactly(""), nil
	case tag != nil:
		return setting.Exactly(*tag), nil
	}
	return setting.Match{}, nil
}
