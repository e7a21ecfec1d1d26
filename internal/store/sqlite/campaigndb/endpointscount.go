package campaigndb

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// endpointCounts reads how many endpoints an app has by channel, active or disabled.
func endpointCounts(c *sqlite.Conn, app string, active bool) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := sqlitedb.Each(c, "SELECT channel, n FROM endpoint_count WHERE app = ? AND active = ? AND n <> 0", []any{app, active}, func(row *sqlite.Stmt) error {
		n[push.Channel(row.ColumnText(0))] = row.ColumnInt64(1)
		return nil
	})
	return n, err
}

// EndpointCounts returns how many endpoints an app has by channel: active ones and inactive ones.
func (s *Store) EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		if active, err = endpointCounts(c, app, true); err == nil {
			disabled, err = endpointCounts(c, app, false)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("count endpoints: %w", known(err))
	}
	return active, disabled, nil
}

// EndpointDays implements endpoint.Store.
func (s *Store) EndpointDays(ctx context.Context, app string, ch push.Channel, from, to time.Time) (list []endpoint.Day, err error) {
	const query = `SELECT day, sum(gained), sum(lost) FROM endpoint_day WHERE app = ?1 AND day >= ?2 AND day <= ?3 AND (?4 = '' OR channel = ?4)
		GROUP BY day ORDER BY day`
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query, []any{app, endpointrow.DayOf(from), endpointrow.DayOf(to), string(ch)}, func(row *sqlite.Stmt) error {
			list = append(list, endpointrow.DayRow(row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt64(2)))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count endpoints by the day: %w", known(err))
	}
	return list, nil
}

// Names implements endpoint.Store.
func (s *Store) Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		if tags, err = names(c, "SELECT name FROM tag_name WHERE app = ? ORDER BY name LIMIT ?", app, limit); err == nil {
			attributes, err = names(c, "SELECT name FROM attribute_name WHERE app = ? ORDER BY name LIMIT ?", app, limit)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list names of tags and attributes: %w", known(err))
	}
	return tags, attributes, nil
}

func names(c *sqlite.Conn, query, app string, limit int) (list []string, err error) {
	list = []string{}
	err = sqlitedb.Each(c, query, []any{app, limit}, func(row *sqlite.Stmt) error {
		list = append(list, row.ColumnText(0))
		return nil
	})
	return list, err
}

// EndpointMetrics returns the figures of endpoints for a registry.
func (s *Store) EndpointMetrics() prometheus.Collector {
	return endpointrow.Metrics(s.cfg.Log, func(ctx context.Context, each func(endpointrow.Count, float64)) error {
		err := s.db.Read(ctx, func(c *sqlite.Conn) error {
			return sqlitedb.Each(c, endpointrow.SumCounts, nil, func(row *sqlite.Stmt) error {
				each(endpointrow.Count{Channel: row.ColumnText(0), Active: row.ColumnInt64(1) == 1}, row.ColumnFloat(2))
				return nil
			})
		})
		return known(err)
	})
}
