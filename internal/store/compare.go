package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/digestdb"
	shared "godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// Bounds of a comparison that a person waits for.
const (
	compareWithin = 3 * time.Second
	maxDiffering  = 20 // inboxes that are named
)

// Counts of inboxes and digests are stored beside what they count. Compared is the result of comparing both.
type compared struct {
	where     string // the file, or the schema
	inboxes   inbox.Checked
	differing int
	named     []string
	cut       bool // not all were compared in time
	err       error
}

func (c *compared) report(app, recipient, problem string) {
	if c.differing++; len(c.named) < maxDiffering {
		c.named = append(c.named, fmt.Sprintf("inbox of %s in app %s: %s", recipient, app, problem))
	}
}

// ended takes the result of a comparison. still says that nothing changed meanwhile, so that contents must have as many references as there are items.
func (c *compared) ended(ctx context.Context, all inbox.Checked, err error, still bool) {
	c.inboxes = all
	switch {
	case err != nil && ctx.Err() != nil:
		c.cut = true
	case err != nil:
		c.err = err
	case still && c.differing == 0 && all.Items != all.References:
		c.differing++
		c.named = append(c.named, fmt.Sprintf("contents of inboxes have %d references, and there are %d items", all.References, all.Items))
	}
}

// findings lists what differs.
func (c *compared) findings() (found []Finding) {
	for _, text := range c.named {
		found = append(found, Finding{c.where, text})
	}
	if more := c.differing - len(c.named); more > 0 {
		found = append(found, Finding{c.where, fmt.Sprintf("and %d more inboxes differ", more)})
	}
	return found
}

// diagnosis sums up for the doctor.
func (c *compared) diagnosis(hint string) Diagnosis {
	d := Diagnosis{Check: "inboxes"}
	switch {
	case c.err != nil:
		d.Detail = c.err.Error()
	case c.differing > 0:
		d.Detail, d.Hint = fmt.Sprintf("%d differ from their items, among them the %s", c.differing, c.named[0]), hint
	case c.cut:
		d.OK, d.Detail = true, fmt.Sprintf("the counts of the first %d agree with their items; --verify compares all", c.inboxes.Inboxes)
	default:
		d.OK, d.Detail = true, fmt.Sprintf("the counts of %d agree with their %d items", c.inboxes.Inboxes, c.inboxes.Items)
	}
	return d
}

// compareInboxFile compares the inboxes of a data folder, also beside a server. It must not be called in the server's process.
func compareInboxFile(ctx context.Context, data string, still bool) *compared {
	c := &compared{where: MailboxFile}
	all, err := mailboxdb.CheckInboxesOf(ctx, filepath.Join(data, MailboxFile), c.report)
	c.ended(ctx, all, err, still)
	return c
}

// compareDigestFile compares the digests of a data folder in the same way.
func compareDigestFile(ctx context.Context, data string) (how []string, err error) {
	err = sqlitedb.Look(filepath.Join(data, fileOf(digest.Module)), func(conn *sqlite.Conn) error {
		there := false
		err := sqlitedb.Each(conn, "SELECT 1 FROM sqlite_schema WHERE name = 'body'", nil, func(*sqlite.Stmt) error { there = true; return nil })
		if err == nil && there {
			how, err = digestdb.Compare(ctx, sqlitedb.Common{Conn: conn})
		}
		return err
	})
	return how, err
}

// verifyCounts compares everything in a file that is counted, if its pages are whole.
func verifyCounts(ctx context.Context, data, name string, still bool) ([]Finding, error) {
	switch name {
	case MailboxFile:
		c := compareInboxFile(ctx, data, still)
		if c.cut {
			return nil, context.Cause(ctx)
		}
		return c.findings(), c.err
	case fileOf(digest.Module):
		how, err := compareDigestFile(ctx, data)
		var found []Finding
		for _, text := range how {
			found = append(found, Finding{name, text})
		}
		return found, err
	}
	return nil, nil
}

// DiagnoseFiles compares counts that are stored in a data folder with what they count, for some seconds. running: a server uses the folder.
func DiagnoseFiles(ctx context.Context, data string, running bool) []Diagnosis {
	const hint = "stop the server, then godwit doctor --repair counts them anew"
	within, cancel := context.WithTimeoutCause(ctx, compareWithin, errors.New("there are too many to compare in time"))
	defer cancel()
	list := []Diagnosis{compareInboxFile(within, data, !running).diagnosis(hint)}
	how, err := compareDigestFile(ctx, data)
	return append(list, diagnosisOfDigests(how, err, hint))
}

func diagnosisOfDigests(how []string, err error, hint string) Diagnosis {
	d := Diagnosis{Check: "digests"}
	switch {
	case err != nil:
		d.Detail = err.Error()
	case len(how) > 0:
		d.Detail, d.Hint = how[0], hint
	default:
		d.OK, d.Detail = true, "counts agree with what waits"
	}
	return d
}

// diagnoseCounts does the same for a database that servers share.
func diagnoseCounts(ctx context.Context, url string) []Diagnosis {
	const hint = "rows of godwit_mailbox or godwit_module_digest were deleted or not restored: restore the database as a whole"
	within, cancel := context.WithTimeoutCause(ctx, compareWithin, errors.New("there are too many to compare in time"))
	defer cancel()
	list := []Diagnosis{compareInboxSchema(within, url).diagnosis(hint)}
	how, err := compareDigestSchema(ctx, url)
	return append(list, diagnosisOfDigests(how, err, hint))
}

func compareInboxSchema(ctx context.Context, url string) *compared {
	c := &compared{where: "godwit_mailbox.inbox"}
	all, err := shared.CheckInboxesOf(ctx, url, "", c.report)
	c.ended(ctx, all, err, false)
	return c
}

func compareDigestSchema(ctx context.Context, url string) (how []string, err error) {
	err = pgdb.Look(ctx, url, moduleSchema+digest.Module, "body", "compare digests", func(ctx context.Context, tx sqltx.Tx) (err error) {
		how, err = digestdb.Compare(ctx, tx)
		return err
	})
	return how, err
}

// VerifyPostgres compares all counts in a database with what they count, even while servers are running.
func VerifyPostgres(ctx context.Context, url string) (found []Finding, err error) {
	c := compareInboxSchema(ctx, url)
	if c.cut {
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		return nil, c.err
	}
	how, err := compareDigestSchema(ctx, url)
	found = c.findings()
	for _, text := range how {
		found = append(found, Finding{moduleSchema + digest.Module, text})
	}
	return found, err
}
