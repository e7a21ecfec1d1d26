package campaigndb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
)

// channelCodes are the channels by their stored numbers: append, never renumber.
var channelCodes = [...]push.Channel{1: push.Live, push.WebPush, push.Telegram, push.Webhook, push.FCM, push.APNs}

func channelCode(ch push.Channel) int16 {
	for i, c := range channelCodes {
		if c == ch && i > 0 {
			return int16(i) //nolint:gosec // a few
		}
	}
	return 0
}

func channelOf(code int16) push.Channel {
	if code > 0 && int(code) < len(channelCodes) {
		return channelCodes[code]
	}
	return ""
}

// What counters count beside outcomes, which have numbers below 20.
const (
	countReaction    = 20 // + campaign.Reaction
	countNotRecalled = 30
)

// tally collects changes of campaigns' counters, and writes them at the end of a transaction: in the order of their keys,
// so that nobody waits for a counter while others wait for his.
type tally struct{ counts map[tallyKey]int64 }

type tallyKey struct {
	campaign      int64
	channel, what int16
}

func (t *tally) add(num int64, channel, what int16, n int64) {
	if t.counts == nil {
		t.counts = make(map[tallyKey]int64)
	}
	t.counts[tallyKey{num, channel, what}] += n
}

// move counts a delivery from one outcome to another.
func (t *tally) move(num int64, channel int16, from, to campaign.Outcome) {
	t.add(num, channel, int16(from), -1)
	t.add(num, channel, int16(to), 1)
}

const (
	addCounts = `INSERT INTO campaign_count AS c (campaign, channel, what, n)
		SELECT campaign, channel, what, n FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[]) AS t(campaign, channel, what, n)
		ORDER BY campaign, channel, what
		ON CONFLICT (campaign, channel, what) DO UPDATE SET n = c.n + excluded.n`
	addDays = `INSERT INTO campaign_day AS d (app, day, campaign, what, n)
		SELECT c.app, $1, c.num, t.what, sum(t.n) FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS t(campaign, what, n)
		JOIN campaign c ON c.num = t.campaign WHERE t.what > 1 AND t.n > 0 GROUP BY c.app, c.num, t.what ORDER BY c.app, c.num, t.what
		ON CONFLICT (app, day, campaign, what) DO UPDATE SET n = d.n + excluded.n`
)

// write adds up the counters, and those of the day for what has ended.
func (t *tally) write(ctx context.Context, tx pgx.Tx, now time.Time) error {
	keys := make([]tallyKey, 0, len(t.counts))
	ended := false
	for k, n := range t.counts {
		if n != 0 {
			keys = append(keys, k)
			ended = ended || n > 0 && k.what > int16(campaign.Sending)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b tallyKey) int {
		return cmp.Or(cmp.Compare(a.campaign, b.campaign), cmp.Compare(a.channel, b.channel), cmp.Compare(a.what, b.what))
	})
	nums, channels, whats, ns := make([]int64, len(keys)), make([]int16, len(keys)), make([]int16, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		nums[i], channels[i], whats[i], ns[i] = k.campaign, k.channel, k.what, t.counts[k]
	}
	statements := &pgx.Batch{}
	statements.Queue(addCounts, nums, channels, whats, ns)
	if ended {
		statements.Queue(addDays, dayOf(now), nums, whats, ns)
	}
	return tx.SendBatch(ctx, statements).Close()
}

func dayOf(t time.Time) int64 { return t.Unix() / 86400 }

// Figures implements campaign.Book.
func (s *Store) Figures(ctx context.Context, num int64) (*campaign.Figures, error) {
	f := &campaign.Figures{Counts: make(map[campaign.Outcome]int64), Channels: make(map[push.Channel]map[campaign.Outcome]int64)}
	err := s.db.Each(ctx, "count deliveries", "SELECT channel, what, n FROM campaign_count WHERE campaign = $1 AND n <> 0", []any{num}, func(rows pgx.Rows) error {
		var channel, what int16
		var n int64
		if err := rows.Scan(&channel, &what, &n); err != nil {
			return err
		}
		switch what {
		case countReaction + int16(campaign.Shown):
			f.Shown += n
		case countReaction + int16(campaign.Clicked):
			f.Clicked += n
		case countReaction + int16(campaign.Dismissed):
			f.Dismissed += n
		case countNotRecalled:
			f.NotRecalled += n
		default:
			ch, o := channelOf(channel), campaign.Outcome(what) //nolint:gosec // written by tally
			f.Counts[o] += n
			if f.Channels[ch] == nil {
				f.Channels[ch] = make(map[campaign.Outcome]int64)
			}
			f.Channels[ch][o] += n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Days implements campaign.Reports.
func (s *Store) Days(ctx context.Context, app string, num int64, from, to time.Time) (list []campaign.Day, err error) {
	const query = `SELECT day, what, sum(n)::bigint FROM campaign_day WHERE app = $1 AND day >= $2 AND day <= $3 AND ($4 = 0 OR campaign = $4)
		GROUP BY day, what ORDER BY day`
	err = s.db.Each(ctx, "read statistics", query, []any{app, dayOf(from), dayOf(to), num}, func(rows pgx.Rows) error {
		var number, n int64
		var what int16
		if err := rows.Scan(&number, &what, &n); err != nil {
			return err
		}
		day := time.Unix(number*86400, 0).UTC()
		if len(list) == 0 || !list[len(list)-1].Day.Equal(day) {
			list = append(list, campaign.Day{Day: day, Outcomes: make(map[campaign.Outcome]int64), Reactions: make(map[campaign.Reaction]int64)})
		}
		d := &list[len(list)-1]
		switch {
		case what < countReaction:
			d.Outcomes[campaign.Outcome(what)] += n //nolint:gosec // written by tally
		case what < countNotRecalled:
			d.Reactions[campaign.Reaction(what-countReaction)] += n //nolint:gosec // written by tally
		}
		return nil
	})
	return list, err
}
