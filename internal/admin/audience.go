package admin

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
)

// Audience is what the pages read of endpoints.
type Audience interface {
	Totals(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error)
	Count(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error)
	// Of lists a recipient's endpoints.
	Of(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	// Names lists the tags and the names of attributes that an app's endpoints have or had.
	Names(ctx context.Context, app string) (tags, attributes []string, err error)
}

// mostNames is how many tags and attributes are shown.
const mostNames = 100

type crowd struct {
	Active, Disabled int64
	Channels         []channelCount
	Tags, Attributes []string
}

type channelCount struct {
	Name             push.Channel
	Active, Disabled int64
}

func (a *admin) showAudience(v *visit) error {
	ctx, app := v.r.Context(), v.person.App
	active, disabled, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	var c crowd
	for _, ch := range audience.Channels() {
		n := channelCount{ch, active[ch], disabled[ch]}
		if n.Active+n.Disabled > 0 {
			c.Channels = append(c.Channels, n)
			c.Active, c.Disabled = c.Active+n.Active, c.Disabled+n.Disabled
		}
	}
	if c.Tags, c.Attributes, err = a.names(ctx, app); err != nil {
		return err
	}
	return a.show(v, "audience", "Audience", "audience", c)
}

func (a *admin) names(ctx context.Context, app string) (tags, attributes []string, err error) {
	tags, attributes, err = a.Audience.Names(ctx, app)
	return tags[:min(len(tags), mostNames)], attributes[:min(len(attributes), mostNames)], err
}

// matches answers a tried segment.
type matches struct {
	Problem string
	Count   int64
}

func (a *admin) countAudience(v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return a.part(v, "audience", "matches", matches{Problem: "The form could not be read."})
	}
	who := audience.Audience{Where: text(v.r.PostForm, "where"), TagsAny: words(v.r.PostForm, "tags_any")}
	n, err := a.reach(v, &who)
	var m *mistake
	if err = explain(err); errors.As(err, &m) {
		return a.part(v, "audience", "matches", matches{Problem: m.text})
	}
	if err != nil {
		return err
	}
	return a.part(v, "audience", "matches", matches{Count: n})
}
