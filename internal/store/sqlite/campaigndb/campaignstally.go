package campaigndb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// channelCodes are the channels by their stored numbers: append, never renumber.
var channelCodes = [...]push.Channel{1: push.Live, push.WebPush, push.Telegram, push.Webhook, push.FCM, push.APNs}

func channelCode(ch push.Channel) int64 {
	for i, c := range channelCodes {
		if c == ch && i > 0 {
			return int64(i)
		}
	}
	return 0
}

func channelOf(code int64) push.Channel {
	if code > 0 && code < int64(len(channelCodes)) {
		return channelCodes[code]
	}
	return ""
}

// What counters count beside outcomes, which have numbers below 20.
const (
	countReaction    = 20 // + campaign.Reaction
	countNotRecalled = 30
)

// tally collects changes of a campaign's counters and writes them at the end of a transaction.
type tally struct {
	num    int64
	counts map[tallyKey]int64
}

type tallyKey struct{ channel, what int64 }

func (t *tally) add(channel, what, n int64) {
	if t.counts == nil {
		t.counts = make(map[tallyKey]int64)
	}
	t.counts[tallyKey{channel, what}] += n
}

// move counts a delivery from one outcome to another.
func (t *tally) move(channel int64, from, to campaign.Outcome) {
	t.add(channel, int64(from), -1)
	t.add(channel, int64(to), 1)
}

// write adds up the counters, and those of the day for what has ended.
func (t *tally) write(c *sqlite.Conn, now time.Time) error {
	days := make(map[int64]int64)
	for k, n := range t.counts {
		if n == 0 {
			continue
		}
		err := sqlitedb.Each(c, `INSERT INTO campaign_count(campaign, channel, what, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (campaign, channel, what) DO UPDATE SET n = n + excluded.n`, []any{t.num, k.channel, k.what, n}, nil)
		if err != nil {
			return err
		}
		if k.what > int64(campaign.Sending) && n > 0 {
			days[k.what] += n
		}
	}
	for what, n := range days {
		err := sqlitedb.Each(c, `INSERT INTO campaign_day(app, day, campaign, what, n) SELECT app, ?, num, ?, ? FROM campaign WHERE num = ?
			ON CONFLICT (app, day, campaign, what) DO UPDATE SET n = n + excluded.n`, []any{dayOf(now), what, n, t.num}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func dayOf(t time.Time) int64 { return t.Unix() / 86400 }

// Figures implements campaign.Book.
func (s *Store) Figures(ctx context.Context, num int64) (*campaign.Figures, error) {
	f := &campaign.Figures{Counts: make(map[campaign.Outcome]int64), Channels: make(map[push.Channel]map[campaign.Outcome]int64)}
	err := s.db.ReadFor(ctx, s.owner(num), func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT channel, what, n FROM campaign_count WHERE campaign = ? AND n <> 0", []any{num}, func(row *sqlite.Stmt) error {
			ch, what, n := channelOf(row.ColumnInt64(0)), row.ColumnInt64(1), row.ColumnInt64(2)
			switch what {
			case countReaction + int64(campaign.Shown):
				f.Shown += n
			case countReaction + int64(campaign.Clicked):
				f.Clicked += n
			case countReaction + int64(campaign.Dismissed):
				f.Dismissed += n
			case countNotRecalled:
				f.NotRecalled += n
			default:
				o := campaign.Outcome(what) //nolint:gosec // written by tally
				f.Counts[o] += n
				if f.Channels[ch] == nil {
					f.Channels[ch] = make(map[campaign.Outcome]int64)
				}
				f.Channels[ch][o] += n
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", known(err))
	}
	return f, nil
}

// Days implements campaign.Reports.
func (s *Store) Days(ctx context.Context, app string, num int64, from, to time.Time) (list []campaign.Day, err error) {
	query, args := "SELECT day, what, sum(n) FROM campaign_day WHERE app = ? AND day >= ? AND day <= ?", []any{app, dayOf(from), dayOf(to)}
	if num != 0 {
		query, args = query+" AND campaign = ?", append(args, num)
	}
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query+" GROUP BY day, what ORDER BY day", args, func(row *sqlite.Stmt) error {
			day := time.Unix(row.ColumnInt64(0)*86400, 0).UTC()
			if len(list) == 0 || !list[len(list)-1].Day.Equal(day) {
				list = append(list, campaign.Day{Day: day, Outcomes: make(map[campaign.Outcome]int64), Reactions: make(map[campaign.Reaction]int64)})
			}
			d, what, n := &list[len(list)-1], row.ColumnInt64(1), row.ColumnInt64(2)
			switch {
			case what < countReaction:
				d.Outcomes[campaign.Outcome(what)] += n //nolint:gosec // written by tally
			case what < countNotRecalled:
				d.Reactions[campaign.Reaction(what-countReaction)] += n //nolint:gosec // written by tally
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read statistics: %w", known(err))
	}
	return list, nil
}
