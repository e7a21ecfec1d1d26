package store

import (
	"context"

	"godwit.dev/godwit/internal/store/postgres/pghealth"
)

// Diagnosis is what one check of a database server found, in words for people.
type Diagnosis = pghealth.Finding

// DiagnosePostgres looks at a PostgreSQL database for what would keep servers from working with it. It changes nothing.
func DiagnosePostgres(ctx context.Context, url string) []Diagnosis {
	return pghealth.Diagnose(ctx, url)
}
