package campaigndb

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// TestDeliveriesAreFoundWithoutSorting keeps the queries that run for every few hundred messages from looking at more
// than these: with a million pending ones, sorting them each time would be the end.
func TestDeliveriesAreFoundWithoutSorting(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, query := range map[string]string{
		"due": dueQuery, "next due": nextDueQuery, "recover": leftQuery,
		"cancel": sweepQuery(campaign.Sweep{From: campaign.Pending}) + " LIMIT ?",
		"let go": sweepQuery(campaign.Sweep{From: campaign.Pending, Held: true}) + " LIMIT ?",
		"retry":  sweepQuery(campaign.Sweep{From: campaign.Unknown}) + " LIMIT ?",
	} {
		var plan []string
		err := s.db.Read(t.Context(), func(c *sqlite.Conn) error {
			return sqlitedb.EachOnce(c, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(query, "?", "1"), nil, func(row *sqlite.Stmt) error {
				plan = append(plan, row.ColumnText(3))
				return nil
			})
		})
		text := strings.Join(plan, "; ")
		if err != nil || strings.Contains(text, "TEMP B-TREE") || !strings.Contains(text, "INDEX delivery_") {
			t.Errorf("%s: %s (%v)", name, text, err)
		}
		if name == "let go" && !strings.Contains(text, "due=?") {
			t.Errorf("%s: %s: looks at everything that is pending", name, text)
		}
	}
}
