package clickhouse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// schemaVersion is the number of statement lists in versions: a server executes those that a database lacks.
const schemaVersion = 2

// versions are the statements that upgrade each version of the schema to the next. %[1]s is the database, %[2]d the number of days for
// which events are kept. Outside users may read the tables event and minute, whose columns keep their names. A server may end in the middle
// of an upgrade, so each statement may run again.
var versions = [schemaVersion][]string{{
	// ClickHouse skips a repeated batch by its token; it merges other duplicates by their id, and counts them once with FINAL.
	`CREATE TABLE IF NOT EXISTS %[1]s.event (
	app        LowCardinality(String),
	event_id   UInt64,
	type       LowCardinality(String),
	at         DateTime64(3, 'UTC'),
	id         String,
	recipient  String,
	channel    LowCardinality(String),
	step       UInt16,
	detail     String,
	reconciled Bool,
	latency_ms Nullable(UInt32)
) ENGINE = ReplacingMergeTree
PARTITION BY toMonday(at)
ORDER BY (app, event_id)
TTL toDateTime(at) + INTERVAL %[2]d DAY
SETTINGS non_replicated_deduplication_window = 10000`,
	`CREATE TABLE IF NOT EXISTS %[1]s.minute_state (
	app     LowCardinality(String),
	minute  DateTime('UTC'),
	type    LowCardinality(String),
	channel LowCardinality(String),
	events  SimpleAggregateFunction(sum, UInt64),
	latency AggregateFunction(quantilesTDigestIf(0.5, 0.9, 0.99), UInt32, UInt8)
) ENGINE = AggregatingMergeTree
PARTITION BY toMonday(minute)
ORDER BY (app, minute, type, channel)
TTL minute + INTERVAL %[2]d DAY
SETTINGS non_replicated_deduplication_window = 10000`,
	`CREATE MATERIALIZED VIEW IF NOT EXISTS %[1]s.minute_fill TO %[1]s.minute_state AS
SELECT app, toStartOfMinute(toDateTime(at, 'UTC')) AS minute, type, channel, count() AS events,
	quantilesTDigestIfState(0.5, 0.9, 0.99)(assumeNotNull(latency_ms), isNotNull(latency_ms)) AS latency
FROM %[1]s.event GROUP BY app, minute, type, channel`,
	`CREATE VIEW IF NOT EXISTS %[1]s.minute AS
SELECT app, minute, type, channel, sum(events) AS events, quantilesTDigestIfMerge(0.5, 0.9, 0.99)(latency) AS latency_ms
FROM %[1]s.minute_state GROUP BY app, minute, type, channel`,
}, {
	`ALTER TABLE %[1]s.event ADD COLUMN IF NOT EXISTS category LowCardinality(String)`,
	`ALTER TABLE %[1]s.minute_state ADD COLUMN IF NOT EXISTS category LowCardinality(String), MODIFY ORDER BY (app, minute, type, channel, category)`,
	`ALTER TABLE %[1]s.minute_fill MODIFY QUERY
SELECT app, toStartOfMinute(toDateTime(at, 'UTC')) AS minute, type, channel, category, count() AS events,
	quantilesTDigestIfState(0.5, 0.9, 0.99)(assumeNotNull(latency_ms), isNotNull(latency_ms)) AS latency
FROM %[1]s.event GROUP BY app, minute, type, channel, category`,
	`CREATE VIEW IF NOT EXISTS %[1]s.minute_category AS
SELECT app, minute, type, channel, category, sum(events) AS events, quantilesTDigestIfMerge(0.5, 0.9, 0.99)(latency) AS latency_ms
FROM %[1]s.minute_state GROUP BY app, minute, type, channel, category`,
}}

const (
	makeDatabase = "CREATE DATABASE IF NOT EXISTS %[1]s"
	makeVersions = `CREATE TABLE IF NOT EXISTS %[1]s.schema_version (version UInt32, at DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY version`
	readVersion  = `SELECT max(version) FROM %[1]s.schema_version`
	noteVersion  = `INSERT INTO %[1]s.schema_version (version) VALUES (%[2]d)`
)

// Schema returns all statements with which a sink sets up its database.
func Schema(database string, keep time.Duration) (list []string) {
	list = append(list, fmt.Sprintf(makeDatabase, quoted(database)), fmt.Sprintf(makeVersions, quoted(database)))
	for v := range versions {
		list = append(list, upgrade(v, database, keep)...)
	}
	return list
}

// upgrade returns the statements that upgrade a version to the next, and record the new version.
func upgrade(from int, database string, keep time.Duration) (list []string) {
	days := max(1, int(keep/(24*time.Hour)))
	for _, s := range versions[from] {
		list = append(list, fill(s, database, days))
	}
	return append(list, fmt.Sprintf(noteVersion, quoted(database), from+1))
}

func fill(s, database string, days int) string {
	return strings.NewReplacer("%[1]s", quoted(database), "%[2]d", strconv.Itoa(days)).Replace(s)
}

// quoted is a name as it is written in a statement.
func quoted(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}
