package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Limits of a search of campaigns, which looks through the newest.
const (
	searchPage   = 200
	mostSearched = 1000
)

// sorting is an order of the list of campaigns.
type sorting string

// Orders of the list. The empty one is that of creation, the newest first.
const (
	byNewest sorting = ""
	byName   sorting = "name"
	byState  sorting = "state"
	bySent   sorting = "sent"
	byClicks sorting = "clicks"
)

// sought is a search and an order of campaigns.
type sought struct {
	Query string
	State campaign.State
	Sort  sorting
}

func soughtIn(q url.Values) (sought, error) {
	s := sought{Query: clip(text(q, "q"), 200), State: campaign.State(text(q, "state")), Sort: sorting(text(q, "sort"))}
	if s.State != "" && !slices.Contains(campaignStates, s.State) || !slices.Contains([]sorting{byNewest, byName, byState, bySent, byClicks}, s.Sort) {
		return s, mistaken(http.StatusBadRequest, "There is no such state or order of campaigns.")
	}
	return s, nil
}

// campaignStates are the states that the list can be limited to.
var campaignStates = []campaign.State{
	campaign.Draft, campaign.Scheduled, campaign.Running, campaign.Paused, campaign.Completed, campaign.Cancelled, campaign.Failed, campaign.Recalling, campaign.RecallDone,
}

// plain reports whether all campaigns are listed in the order of their creation.
func (s sought) plain() bool { return s == sought{} }

// ordered returns the path of the list with another order.
func (s sought) ordered(by sorting) string {
	s.Sort = by
	return s.path(0)
}

func (s sought) path(cursor int64) string {
	q := make(url.Values)
	for name, value := range map[string]string{"q": s.Query, "state": string(s.State), "sort": string(s.Sort)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if cursor > 0 {
		q.Set("cursor", strconv.FormatInt(cursor, 10))
	}
	if len(q) == 0 {
		return "/ui/campaigns"
	}
	return "/ui/campaigns?" + q.Encode()
}

// matches reports whether a campaign is sought.
func (s sought) matches(c *campaign.View) bool {
	return (s.State == "" || c.State == s.State) && (s.Query == "" || contains(named(c), s.Query) || contains(c.Spec.Content.Title, s.Query) || c.ID == s.Query)
}

// order compares two campaigns.
func (s sought) order(a, b *campaign.View) int {
	newest := cmp.Compare(b.Num, a.Num)
	switch s.Sort {
	case byName:
		return cmp.Or(cmp.Compare(folded(named(a)), folded(named(b))), newest)
	case byState:
		return cmp.Or(cmp.Compare(slices.Index(campaignStates, a.State), slices.Index(campaignStates, b.State)), newest)
	case bySent:
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), newest)
	case byClicks:
		return cmp.Or(cmp.Compare(b.Clicked, a.Clicked), newest)
	}
	return newest
}

// search looks through the newest campaigns; looked > 0: there are more than these.
func (a *admin) search(v *visit, s sought) (found []*campaign.View, looked int, err error) {
	cursor := int64(0)
	for looked < mostSearched {
		part, err := a.Campaigns.List(v.r.Context(), v.person.App, searchPage, cursor)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range part {
			if s.matches(c) {
				found = append(found, c)
			}
		}
		if looked += len(part); len(part) < searchPage {
			looked = 0
			break
		}
		cursor = part[len(part)-1].Num
	}
	slices.SortFunc(found, s.order)
	return found, looked, nil
}

// reactions says which reactions of its readers a campaign can count.
type reactions struct{ Shown, Clicked bool }

// reactionsOf finds the countable reactions: devices report what they show, and links that lead through this server count clicks.
// Telegram tells of no message that is shown.
func reactionsOf(c *campaign.View) (r reactions) {
	chs := c.Campaign.Channels
	if len(chs) == 0 {
		chs = c.Spec.Audience.Channels
	}
	r.Shown, r.Clicked = c.Spec.Counts(chs, campaign.Shows, c.Links), c.Spec.Counts(chs, campaign.Clicks, c.Links)
	if len(chs) == 0 { // not decided yet
		r.Shown, r.Clicked = c.Spec.Tracked(), c.Spec.Tracked()
	}
	if c.Kept && c.Spec.Tracked() && slices.Contains(chs, push.Live) { // the inbox reports what its person has seen and read
		r.Shown, r.Clicked = true, true
	}
	r.Shown, r.Clicked = r.Shown || c.Shown > 0, r.Clicked || c.Clicked > 0
	return r
}

// rung is a line of the funnel: what became of the messages, from all of them to the clicked ones.
type rung struct {
	Name, Label string
	Count       int64
	Width       int64 // thousandths of all messages
	Percent     string
	Uncounted   bool
}

// funnel draws what became of a campaign's messages; nil before it has any.
func funnel(l *words.Language, c *campaign.View) (all []rung) {
	total := c.Total()
	if total == 0 {
		return nil
	}
	add := func(name, label string, n int64, counted bool) {
		r := rung{Name: name, Label: label, Count: n, Uncounted: !counted}
		if counted {
			r.Width, r.Percent = n*1000/total, l.T("%s %%", float64(n)*100/float64(total))
		}
		all = append(all, r)
	}
	counted := reactionsOf(c)
	add("all", l.T("Messages"), total, true)
	add("accepted", l.T("Accepted by the provider"), c.Counts[campaign.Accepted]+c.Counts[campaign.TakenBack], true)
	add("shown", l.T("Shown on a device"), c.Shown, counted.Shown)
	add("clicked", l.T("Clicked"), c.Clicked, counted.Clicked)
	return all
}
