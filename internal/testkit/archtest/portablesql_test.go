package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// postgresStores is the folder with the SQL of the stores on PostgreSQL. Tests and the tools that repair a PostgreSQL server are left out.
const postgresStores = "internal/store/postgres/"

// refused are the parts of SQL that a distributed database which speaks PostgreSQL's protocol refuses, or accepts without effect; see
// docs/adr/0044. Each lists the files that may use it, with the number of uses. A new use needs a reason, and a line here.
//
// The list stands in for a parser: most statements are composed of pieces, and a parser reads only whole ones.
var refused = []struct {
	what    string
	pattern *regexp.Regexp
	by      string // which databases
	known   map[string]int
}{
	{"LOCK TABLE", regexp.MustCompile(`(?i)\bLOCK TABLE\b`), "CockroachDB, YugabyteDB", map[string]int{"mailboxdb/seal.go": 1}},
	{
		"advisory locks of sessions", regexp.MustCompile(`(?i)\bpg_(try_)?advisory_(un)?lock(_shared|_all)?\b`), "CockroachDB (accepted without effect)",
		map[string]int{"mailboxdb/seal.go": 2},
	},
	{
		"advisory locks of transactions", regexp.MustCompile(`(?i)\bpg_(try_)?advisory_xact_lock`), "Citus (of one node), CockroachDB before 2026",
		map[string]int{"campaigndb/preferences.go": 1, "eventdb/retain.go": 1, "mailboxdb/tables.go": 1, "pgdb/migrate.go": 1},
	},
	{"VACUUM", regexp.MustCompile(`(?i)\bVACUUM\b`), "CockroachDB, YugabyteDB (without effect)", map[string]int{"mailboxdb/sizes.go": 2}},
	{
		"tables made or dropped while it runs", regexp.MustCompile(`(?i)\b(CREATE|DROP|ALTER) (TABLE|INDEX|UNIQUE INDEX)\b`), "all: a change of the schema takes seconds, or stops prepared statements",
		map[string]int{"mailboxdb/tables.go": 8, "mailboxdb/seal.go": 2, "mailboxdb/prune.go": 1, "pgdb/migrate.go": 1},
	},
	{"LISTEN and NOTIFY", regexp.MustCompile(`(?m)\b(LISTEN [a-z_]|NOTIFY [a-z_]|pg_notify)`), "CockroachDB, YugabyteDB", nil},
	{"columns of the system", regexp.MustCompile(`(?i)\b(xmin|xmax|ctid|cmin|cmax|tableoid)\b`), "CockroachDB, YugabyteDB, Citus", map[string]int{"mailboxdb/unsure.go": 2, "mailboxdb/atonce.go": 2}},
	{"functions and triggers", regexp.MustCompile(`(?i)\bCREATE( OR REPLACE)? (FUNCTION|PROCEDURE|TRIGGER|EXTENSION|TYPE|DOMAIN|RULE)\b`), "partly all", nil},
	{"constraints that wait", regexp.MustCompile(`(?i)\bDEFERRABLE\b|\bEXCLUDE USING\b`), "CockroachDB, YugabyteDB", nil},
	{"places in the log", regexp.MustCompile(`(?i)\bpg_(current_wal|walfile)_\w+`), "CockroachDB, YugabyteDB", map[string]int{"pgdb/timeline.go": 2}},
}

// sqlOf returns the texts of a file that may hold SQL, without comments: the string literals of Go, or all of an SQL file.
func sqlOf(f *source) (texts []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, commentOfSQL.ReplaceAllString(s, ""))
			}
		}
		return true
	})
	return texts
}

var commentOfSQL = regexp.MustCompile(`--[^\n]*`)

func TestStoresOnPostgreSQLUseNoMoreThatDistributedDatabasesRefuse(t *testing.T) {
	texts := map[string][]string{}
	for _, f := range tree(t) {
		name, ok := strings.CutPrefix(f.path, postgresStores)
		if ok && !f.isTest() && !strings.HasPrefix(name, "pgtest/") && !strings.HasPrefix(name, "pghealth/") {
			texts[name] = sqlOf(f)
		}
	}
	if len(texts) < 50 {
		t.Fatalf("found only %d files", len(texts))
	}
	for _, r := range refused {
		found := map[string]int{}
		for name, list := range texts {
			for _, text := range list {
				found[name] += len(r.pattern.FindAllString(text, -1))
			}
		}
		maps.DeleteFunc(found, func(_ string, n int) bool { return n == 0 })
		for _, name := range slices.Sorted(maps.Keys(merged(found, r.known))) {
			if found[name] != r.known[name] {
				t.Errorf("%s uses %s %d times, known are %d; refused by: %s", name, r.what, found[name], r.known[name], r.by)
			}
		}
	}
}

// TestMigrationsUseOnlyTablesAndIndexes: migrations run once and may change the schema, but everything else holds for them, too.
func TestMigrationsUseOnlyTablesAndIndexes(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "..", filepath.FromSlash(postgresStores)), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".sql" {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		sql := commentOfSQL.ReplaceAllString(string(text), "")
		for _, r := range refused {
			if found := r.pattern.FindString(sql); found != "" && !strings.HasPrefix(r.what, "tables made") {
				t.Errorf("%s uses %s (%s); refused by: %s", name, r.what, found, r.by)
			}
		}
		return err
	})
	if err != nil || files < 20 {
		t.Errorf("%d files, %v", files, err)
	}
}

func merged(a, b map[string]int) map[string]int {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
