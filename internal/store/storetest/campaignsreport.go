package storetest

import (
	"fmt"
	"slices"

	"godwit.dev/godwit/internal/campaigns/campaign"
)

// listedByOutcome lists deliveries by each outcome, and by an outcome that none of many has.
func listedByOutcome(e *campaignEnv) {
	numbers := e.hooks(3 * campaign.ReportLooks / 2)
	c := e.running()
	for done := false; !done; {
		var err error
		_, done, err = e.s.Enumerate(e.Context(), e.epoch, c.Num, 500, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} })
		e.check(err)
	}
	due := e.claim(c, e.due(c))
	ended := []campaign.Outcome{campaign.Accepted, campaign.Refused, campaign.Expired, campaign.Suppressed, campaign.Unknown}
	want := make(map[campaign.Outcome][]int64)
	var results []campaign.Result
	for i, t := range due {
		if i%10 < len(ended) { // the others are being sent
			results = append(results, campaign.Result{Row: t.Row, Outcome: ended[i%10], Attempts: 1})
			want[ended[i%10]] = append(want[ended[i%10]], t.Row)
		}
	}
	e.finish(c, results...)
	for _, n := range numbers {
		if !slices.ContainsFunc(results, func(r campaign.Result) bool { return r.Row == n }) {
			want[campaign.Pending] = append(want[campaign.Pending], n)
		}
	}
	for _, only := range append(ended, campaign.Pending, campaign.TakenBack) {
		slices.Sort(want[only])
		for _, limit := range []int{1, 7, 90, 1000} {
			if limit > 7 || only != campaign.Pending { // of which there are many
				e.wantListed(c, only, limit, want[only])
			}
		}
	}
	accepted := want[campaign.Accepted]
	rest, next, err := e.s.Deliveries(e.Context(), c.Num, outcome(campaign.Accepted), 10, accepted[len(accepted)-1])
	if e.check(err); len(rest) != 0 || next == 0 || next > numbers[len(numbers)-1]-campaign.ReportLooks/4 {
		e.Errorf("behind the last of them %d are listed, and the page leads on to %d; it may look at %d", len(rest), next, campaign.ReportLooks)
	}
}

func outcome(o campaign.Outcome) *campaign.Outcome { return &o }

func (e *campaignEnv) wantListed(c *campaign.Campaign, only campaign.Outcome, limit int, want []int64) {
	e.Helper()
	var got []int64
	for cursor, first := int64(0), true; cursor > 0 || first; first = false {
		page, next, err := e.s.Deliveries(e.Context(), c.Num, &only, limit, cursor)
		e.check(err)
		if len(page) > limit || next > 0 && next <= cursor {
			e.Fatalf("%s: %d on a page of %d after %d, which leads to %d", only, len(page), limit, cursor, next)
		}
		for i := range page {
			got = append(got, page[i].Row)
		}
		cursor = next
	}
	if !slices.Equal(got, want) {
		e.Errorf("%s, %d a page: %s, want %s", only, limit, few(got), few(want))
	}
}

func few(list []int64) string { return fmt.Sprintf("%d from %v", len(list), list[:min(len(list), 5)]) }
