package campaignrow

import (
	"fmt"

	"godwit.dev/godwit/internal/campaigns/campaign"
)

// reportStep is the number of deliveries read at once if few of them may match.
const reportStep = 200

// Ended returns the condition for deliveries with an outcome other than accepted by a provider. These have an index; databases need both
// halves of the condition to use it.
func Ended(as campaign.Outcome) string {
	return fmt.Sprintf(" AND d.outcome > 2 AND d.outcome = %d", as)
}

// Report reads a page of deliveries, as campaign.Reports defines it. read reads up to limit rows after one, for which a condition holds.
// Waiting and accepted deliveries have no index, so Report searches all deliveries for them: near a campaign's beginning or end, nearly all
// of them are in such a state.
func Report(only *campaign.Outcome, limit int, cursor int64, read func(where string, after int64, limit int) ([]campaign.Delivery, error)) (list []campaign.Delivery, next int64, err error) {
	where, step := "", limit
	switch {
	case only == nil:
	case *only > campaign.Accepted:
		where, only = Ended(*only), nil
	default:
		step = max(limit, reportStep)
	}
	next = cursor
	for looked := 0; len(list) < limit && looked < max(limit, campaign.ReportLooks); looked += step {
		page, err := read(where, next, step)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			if len(list) == limit {
				return list, next, nil
			}
			next = page[i].Row
			if only == nil || shownAs(page[i].Outcome) == *only {
				list = append(list, page[i])
			}
		}
		if len(page) < step {
			return list, 0, nil
		}
	}
	return list, next, nil
}

// shownAs returns the outcome that people see: a delivery that is being sent is pending.
func shownAs(o campaign.Outcome) campaign.Outcome {
	if o == campaign.Sending {
		return campaign.Pending
	}
	return o
}
