package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Limits of the page that shows the reasons for deliveries' outcomes.
const (
	mostLooked     = 5000 // deliveries whose reasons are counted
	lookedAtOnce   = 200
	mostReasons    = 50
	mostDeliveries = 100
)

// deliveryPage is the content of a campaign's page about one outcome.
type deliveryPage struct {
	ID, Name, Outcome string
	Total             int64
	Looked            int64 // number of deliveries counted, of Total; the newest may be left out
	Later             bool  // this is not the first page
	Next              string
	Reasons           []reason
	Items             []campaign.Delivery
	Call              string // of the API, that lists all
}

type reason struct {
	Channel push.Channel
	Text    string
	Count   int64
}

func (a *admin) showDeliveries(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	only, ok := campaign.ParseOutcome(v.r.URL.Query().Get("outcome"))
	if !ok {
		return mistaken(http.StatusBadRequest, "There is no such outcome.")
	}
	p := deliveryPage{
		ID: c.ID, Name: named(c), Outcome: only.String(), Total: c.Counts[only],
		Call: "GET /v1/campaigns/" + c.ID + "/deliveries?outcome=" + only.String(),
	}
	if only == campaign.Pending {
		p.Total = c.Open()
	}
	p.Later = position(v.r.URL.Query().Get("cursor")) > 0
	if err := a.look(v, &p, only); err != nil {
		return err
	}
	return a.show(v, "deliveries", p.Name, "campaigns", p)
}

// look counts the reasons of deliveries with one outcome, for a while, and lists the first ones.
func (a *admin) look(v *visit, p *deliveryPage, only campaign.Outcome) error {
	counts := make(map[reason]int64)
	until, cursor := a.now().Add(lookFor), position(v.r.URL.Query().Get("cursor"))
	for more := true; more && p.Looked < mostLooked && a.now().Before(until); {
		page, next, err := a.Campaigns.Report(v.r.Context(), v.person.App, p.ID, &only, lookedAtOnce, cursor)
		if err != nil {
			return explain(err)
		}
		cursor, more = next, next > 0
		for i := range page {
			d := &page[i]
			d.Detail = why(v.lang, d)
			counts[reason{Channel: d.Channel, Text: d.Detail}]++
			if len(p.Items) < mostDeliveries {
				p.Items = append(p.Items, *d)
			}
		}
		p.Looked += int64(len(page))
	}
	if cursor > 0 {
		p.Next = deliveriesURL(p.ID, only.String()) + "&cursor=" + strconv.FormatInt(cursor, 10)
	}
	for r, n := range counts {
		r.Count = n
		p.Reasons = append(p.Reasons, r)
	}
	slices.SortFunc(p.Reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Text, b.Text))
	})
	p.Reasons = p.Reasons[:min(len(p.Reasons), mostReasons)]
	return nil
}

// causes is the part of a campaign's page that says why messages failed.
type causes struct {
	ID     string
	Items  []cause
	Looked int64 // number of deliveries counted, if not all were
}

type cause struct {
	reason
	Width   int64 // thousandths of those counted
	Percent string
}

const mostCauses = 5

func (a *admin) showCauses(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	p := deliveryPage{ID: c.ID}
	if err := a.look(v, &p, campaign.Refused); err != nil {
		return err
	}
	shown := causes{ID: c.ID}
	if p.Next != "" {
		shown.Looked = p.Looked
	}
	for _, r := range p.Reasons[:min(len(p.Reasons), mostCauses)] {
		shown.Items = append(shown.Items, cause{r, r.Count * 1000 / p.Looked, v.t("%s %%", float64(r.Count)*100/float64(p.Looked))})
	}
	return a.part(v, "campaign", "causes", shown)
}

// why returns the known reason for a delivery's outcome, or for its wait.
func why(l *words.Language, d *campaign.Delivery) string {
	switch {
	case d.Held:
		return l.T("waits until somebody resumes the campaign")
	case d.Waits:
		return l.T("waits until the better variant is known")
	case d.Detail == "" && d.Recall != "":
		return l.T("could not be taken back: %s", reasonIn(l, d.Recall))
	case d.Detail == "" && d.Correction != "":
		return l.T("could not be corrected: %s", reasonIn(l, d.Correction))
	}
	return reasonIn(l, d.Detail)
}

// chart shows the deliveries that ended on each of the last days.
type chart struct {
	Label          string
	From, To       time.Time
	Most           int64 // of a day
	Parts          []chartPart
	Totals         []outcomeCount
	Shown, Clicked int64
}

// chartPart is the number of deliveries with one outcome on one day.
type chartPart struct {
	Class, Title        string
	X, Y, Width, Height int64
}

// Sizes of the chart, which is as many steps wide as there are days.
const (
	chartDays   = 30
	chartStep   = 20
	chartBar    = 11
	recalledBar = 4 // beside it
	chartHeight = 120
)

func (a *admin) chart(v *visit) (*chart, error) {
	to := a.now().UTC().Truncate(24 * time.Hour)
	from := to.AddDate(0, 0, 1-chartDays)
	days, err := a.Campaigns.Days(v.r.Context(), v.person.App, "", from, to)
	if err != nil {
		return nil, err
	}
	return newChart(v.lang, days, from, to), nil
}

// drawnOutcomes lists the outcomes in a day's bar. Recalled deliveries were accepted before, and have a bar of their own.
var drawnOutcomes = slices.DeleteFunc(slices.Clone(shownOutcomes), func(o campaign.Outcome) bool { return o == campaign.TakenBack })

// newChart draws days; nil if no delivery ended in them.
func newChart(l *words.Language, days []campaign.Day, from, to time.Time) *chart {
	c := &chart{From: from, To: to}
	totals := make(map[campaign.Outcome]int64)
	for _, d := range days {
		var sum int64
		for _, o := range shownOutcomes {
			totals[o] += d.Outcomes[o]
		}
		for _, o := range drawnOutcomes {
			sum += d.Outcomes[o]
		}
		c.Most = max(c.Most, sum, d.Outcomes[campaign.TakenBack])
		c.Shown, c.Clicked = c.Shown+d.Reactions[campaign.Shown], c.Clicked+d.Reactions[campaign.Clicked]
	}
	if c.Most == 0 {
		return nil
	}
	c.Label = l.T("Messages by day, at most %s", c.Most)
	for _, o := range shownOutcomes {
		if n := totals[o]; n > 0 {
			c.Totals = append(c.Totals, outcomeCount{o.String(), n})
			c.Label += "; " + l.Number(n) + " " + l.T(o.String())
		}
	}
	for _, d := range days {
		x := int64(d.Day.Sub(from)/(24*time.Hour)) * chartStep
		var sum int64
		for _, o := range drawnOutcomes {
			n := d.Outcomes[o]
			if n == 0 {
				continue
			}
			top, below := chartHeight*(sum+n)/c.Most, chartHeight*sum/c.Most
			sum += n
			c.Parts = append(c.Parts, chartPart{
				Class: o.String(), Title: l.Day(d.Day) + ": " + l.Number(n) + " " + l.T(o.String()),
				X: x, Y: chartHeight - top, Width: chartBar, Height: max(top-below, 1),
			})
		}
		if n := d.Outcomes[campaign.TakenBack]; n > 0 {
			high := max(chartHeight*n/c.Most, 1)
			c.Parts = append(c.Parts, chartPart{
				Class: campaign.TakenBack.String(), Title: l.Day(d.Day) + ": " + l.Number(n) + " " + l.T(campaign.TakenBack.String()),
				X: x + chartBar + 1, Y: chartHeight - high, Width: recalledBar, Height: high,
			})
		}
	}
	return c
}

// deliveriesURL returns the path of the page about an outcome.
func deliveriesURL(id, outcome string) string {
	return "/ui/campaigns/" + url.PathEscape(id) + "/deliveries?outcome=" + url.QueryEscape(outcome)
}
