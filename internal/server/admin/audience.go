package admin

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
)

// Audience reads endpoints for the pages.
type Audience interface {
	Totals(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error)
	// Days counts the endpoints gained and lost by the day: see endpoint.Store.
	Days(ctx context.Context, app string, ch push.Channel, from, to time.Time) ([]endpoint.Day, error)
	// CountPart counts some of a selection's active endpoints, from the one after a cursor: see endpoint.Store.
	CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (endpoint.Part, error)
	// List returns the next endpoints of a selection with a status (empty: any): see endpoint.Store.
	List(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)
	Find(ctx context.Context, who *endpoint.Holder, id audience.ID) (audience.Endpoint, error)
	Change(ctx context.Context, who *endpoint.Holder, id audience.ID, change func(*audience.Endpoint)) (audience.Endpoint, error)
	Delete(ctx context.Context, app string, id audience.ID) error
	Registration(who *endpoint.Holder, e audience.Endpoint) (audience.Registration, error)
	Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error)
	Encoder(ctx context.Context, app, format string, addresses bool) (*endpoint.Encoder, error)
	Export(ctx context.Context, app string, f endpoint.Filter, e *endpoint.Encoder, write func(part []byte) error) error
	// Of lists a recipient's endpoints.
	Of(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	// Names lists the first limit tags and attribute names that an app's endpoints have or had.
	Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error)
}

// mostNames limits the tags and attributes shown.
const mostNames = 100

type crowd struct {
	Where, TagsAny   string // the segment that the person tried; the fields below are its result
	Matches          *matches
	Active, Disabled int64
	Channels         []channelCount
	Tags, Attributes []string
	Search           *search
	Days             *days
}

// days is the chart of endpoints gained and lost, and its table.
type days struct {
	Label        string
	List         []dayRow // the newest first
	Gained, Lost int64
}

type dayRow struct {
	endpoint.Day
	At int64 // Unix time
}

// days reads the last days, and fills those on which nothing changed; nil if nothing changed on any.
func (a *admin) days(v *visit) (*days, error) {
	ctx, app := v.r.Context(), v.person.App
	today := a.now().UTC().Truncate(24 * time.Hour)
	from := today.AddDate(0, 0, 1-chartDays)
	known, err := a.Audience.Days(ctx, app, "", from, today)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	d := &days{}
	for day := today; !day.Before(from); day = day.AddDate(0, 0, -1) {
		row := dayRow{endpoint.Day{Day: day}, day.Unix()}
		if n := len(known) - 1; n >= 0 && known[n].Day.Equal(day) {
			row.Day, known = known[n], known[:n]
		}
		d.List = append(d.List, row)
		d.Gained, d.Lost = d.Gained+row.Gained, d.Lost+row.Lost
	}
	d.Label = v.t("Endpoints by day: %[1]s gained, %[2]s lost. The table below says the same.", d.Gained, d.Lost)
	return d, nil
}

type channelCount struct {
	Name             push.Channel
	Active, Disabled int64
}

func (a *admin) showAudience(v *visit) error { return a.showCrowd(v, crowd{}) }

func (a *admin) showCrowd(v *visit, c crowd) error {
	ctx, app := v.r.Context(), v.person.App
	active, disabled, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return err
	}
	for _, ch := range push.Channels() {
		n := channelCount{ch, active[ch], disabled[ch]}
		if n.Active+n.Disabled > 0 {
			c.Channels = append(c.Channels, n)
			c.Active, c.Disabled = c.Active+n.Active, c.Disabled+n.Disabled
		}
	}
	q := v.r.URL.Query()
	c.Search = newSearch(q)
	if err := a.find(v, c.Search, q.Get("cursor")); err != nil {
		return err
	}
	if c.Search.Segments, err = a.segmentNames(v, c.Search.Segment); err != nil {
		return err
	}
	if c.Days, err = a.days(v); err != nil {
		return err
	}
	if c.Tags, c.Attributes, err = a.names(ctx, app); err != nil {
		return err
	}
	return a.show(v, "audience", v.t("Audience"), "audience", c)
}

func (a *admin) names(ctx context.Context, app string) (tags, attributes []string, err error) {
	return a.Audience.Names(ctx, app, mostNames)
}

// matches answers a tried segment.
type matches struct {
	Problem string
	Save    string // path of a new segment that picks the same; empty: there is none
	reached
}

func (a *admin) countAudience(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	f := v.r.PostForm
	who := audience.Audience{Where: text(f, "where"), TagsAny: commaList(f, "tags_any")}
	var m matches
	var wrong *mistake
	n, err := a.reach(v, &who)
	if m.reached = n; err != nil {
		if err = explain(err); !errors.As(err, &wrong) {
			return err
		}
		m.Problem = wrong.in(v.lang)
	} else {
		m.Save = savedAs(who)
	}
	if v.r.Header.Get("HX-Request") == "" {
		return a.showCrowd(v, crowd{Where: who.Where, TagsAny: text(f, "tags_any"), Matches: &m})
	}
	return a.part(v, "audience", "matches", m)
}

// savedAs returns the path of a new segment that picks what was tried; empty: it was everybody.
func savedAs(who audience.Audience) string {
	if len(who.TagsAny) > 0 {
		tags := make([]string, len(who.TagsAny))
		for i, tag := range who.TagsAny {
			tags[i] = strconv.Quote(tag)
		}
		only, err := audience.Build([]audience.Rule{{Field: audience.TagsField, Op: audience.RuleOneOf, Value: strings.Join(tags, ", ")}}, false)
		if err != nil {
			return ""
		}
		who = who.Within(only)
	}
	if who.Where == "" {
		return ""
	}
	return "/ui/new-segment?" + url.Values{"where": {who.Where}}.Encode()
}
