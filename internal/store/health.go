package store

import (
	"context"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	sharedapps "godwit.dev/godwit/internal/store/postgres/appdb"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pghealth"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// DescribePostgres describes the metrics of PostgreSQL, which exist if it is the store.
func DescribePostgres(ch chan<- *prometheus.Desc) {
	pghealth.Describe(ch)
	(*pgdb.Leases)(nil).Describe(ch)
}

// Diagnosis is the result of one check of a database server, in words for people.
type Diagnosis = pghealth.Finding

// DiagnosePostgres checks a PostgreSQL database for conditions that would prevent servers from working, and for lost rows. It changes
// nothing.
func DiagnosePostgres(ctx context.Context, url string) []Diagnosis {
	list := pghealth.Diagnose(ctx, url)
	if !list[0].OK { // the database cannot be examined
		return list
	}
	return append(append(list, diagnoseSteps(ctx, url)), diagnoseCounts(ctx, url)...)
}

func diagnoseSteps(ctx context.Context, url string) Diagnosis {
	f := Diagnosis{Check: "steps"}
	switch lost, err := mailboxdb.FindLostSteps(ctx, url, ""); {
	case err != nil:
		f.Detail, f.Hint = err.Error(), "the user of postgres has to read the schema godwit_mailbox"
	case lost.Count > 0:
		f.Detail = "notifications have lost the steps beyond live of their escalation: " + lost.String()
		f.Hint = "rows of godwit_mailbox.escalation were deleted or not restored. They wait for their recipients to come; what must reach these sooner, publish anew under another id"
	default:
		f.OK, f.Detail = true, "no notification has lost the steps of its escalation"
	}
	return f
}

// LookAtChannels reads the settings of channels, even while servers are running. It changes nothing, and creates nothing if nothing is
// stored yet.
func LookAtChannels(ctx context.Context, cfg Config) ([]channel.Record, error) {
	if cfg.Postgres != "" {
		return sharedapps.LookAtChannels(ctx, cfg.Postgres, "")
	}
	return appdb.LookAtChannels(filepath.Join(cfg.Data, AppsFile))
}

// LookAtSources reads the settings of sources in the same way, secrets included.
func LookAtSources(ctx context.Context, cfg Config) ([]source.Source, error) {
	if cfg.Postgres != "" {
		return sharedapps.LookAtSources(ctx, cfg.Postgres, "")
	}
	return appdb.LookAtSources(filepath.Join(cfg.Data, AppsFile))
}
