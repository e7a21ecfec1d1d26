package admin

import (
	"errors"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/server/admin/words"
)

// builder is the part of a segment's form that builds its expression from rows. The expression is the truth: rows that the person changes are
// written into it, and an expression that the person changes is read back into rows.
type builder struct {
	Rows   []builderRow
	One    bool     // one row suffices, else all must hold
	Note   string   // why there are no rows
	Fields []string // that rows can compare
	// Shown is the expression that the rows were read from, and Built is what the rows say: a change of either shows which one the person
	// has changed.
	Shown, Built string
	FromRows     bool   // the expression was written from rows just now
	FromText     bool   // the rows were read from the expression just now
	Problem      string // of a row that cannot be written
	Fresh        bool   // it is swapped into the page
	Both         bool   // the person has changed the rows and the expression, which counts
}

// builderRow is a row, with its problem.
type builderRow struct {
	audience.Rule
	N       int
	Problem string
	AtValue bool // the problem is the value's
	Focus   bool
}

// rowWords are the words of operators, and rowOrder their order in the choice.
var (
	rowWords = map[audience.RuleOp]string{
		audience.RuleIs: "is", audience.RuleIsNot: "is not", audience.RuleMore: "is more than", audience.RuleAtLeast: "is at least", audience.RuleLess: "is less than",
		audience.RuleAtMost: "is at most", audience.RuleContains: "contains", audience.RuleContainsNot: "does not contain", audience.RuleBegins: "begins with",
		audience.RuleBeginsNot: "does not begin with", audience.RuleOneOf: "is one of", audience.RuleNoneOf: "is none of", audience.RuleKnown: "is known",
		audience.RuleUnknown: "is not known",
	}
	rowOrder = []audience.RuleOp{
		audience.RuleIs, audience.RuleIsNot, audience.RuleOneOf, audience.RuleNoneOf, audience.RuleContains, audience.RuleContainsNot, audience.RuleBegins, audience.RuleBeginsNot,
		audience.RuleMore, audience.RuleAtLeast, audience.RuleLess, audience.RuleAtMost, audience.RuleKnown, audience.RuleUnknown,
	}
)

// opsOf lists the choice of operators for a row.
func opsOf(l *words.Language, r builderRow) (all []option) {
	for _, op := range rowOrder {
		all = append(all, option{string(op), l.T(rowWords[op]), op == r.Op})
	}
	return all
}

func rowField(n int, name string) string { return "row-" + strconv.Itoa(n) + "-" + name }

// read makes the rows of an expression.
func read(l *words.Language, where string) builder {
	b := builder{Shown: where}
	if strings.TrimSpace(where) == "" {
		b.Rows = []builderRow{{Rule: audience.Rule{Op: audience.RuleIs}}}
		return b
	}
	x, err := audience.Parse(where)
	if err != nil {
		b.Note = l.T("The rows come back once the expression has no mistake.")
		return b
	}
	rows, one, ok := audience.Rules(x)
	if !ok {
		b.Note = l.T("Rows cannot show this expression: it mixes “and” with “or”, or has more than they can say. Change it as text.")
		return b
	}
	b.One = one
	for i, r := range rows {
		b.Rows = append(b.Rows, builderRow{Rule: r, N: i})
	}
	b.Built, _ = audience.Build(rows, one) // they were read from an expression
	return b
}

// settle decides whether the posted form's expression or its rows count, and lets the other follow.
func settle(f *form) builder {
	where := text(f.Values, "where")
	f.Values.Set("where", where)
	b := builder{Shown: f.Values.Get("shown"), Built: f.Values.Get("built"), One: f.Values.Get("join") == "or"}
	for n := range audience.MaxRules {
		if !f.Values.Has(rowField(n, "field")) {
			break
		}
		b.Rows = append(b.Rows, builderRow{N: n, Rule: audience.Rule{
			Field: text(f.Values, rowField(n, "field")), Op: audience.RuleOp(f.Values.Get(rowField(n, "op"))), Value: text(f.Values, rowField(n, "value")),
		}})
	}
	if where != b.Shown || b.Rows == nil {
		next := read(f.speaks(), where)
		if next.Note != "" && next.Rows == nil && b.Rows != nil && isWrong(where) {
			return b // the rows stay until the expression can be read
		}
		next.FromText, next.Both = true, b.changed()
		return next
	}
	b.write(f)
	return b
}

// filled returns the rows that are not blank, and where they stand.
func (b *builder) filled() (rows []audience.Rule, at []int) {
	for i, r := range b.Rows {
		if r.Field != "" || r.Value != "" {
			rows, at = append(rows, r.Rule), append(at, i)
		}
	}
	return rows, at
}

// changed reports whether the rows say something else than when they were shown.
func (b *builder) changed() bool {
	rows, _ := b.filled()
	built, err := audience.Build(rows, b.One)
	return err != nil || built != b.Built
}

func isWrong(where string) bool {
	_, err := audience.Parse(where)
	return err != nil
}

// write writes the rows into the form's expression, if the person has changed them. A row that is being filled in waits.
func (b *builder) write(f *form) {
	rows, at := b.filled()
	built, err := audience.Build(rows, b.One)
	var bad *audience.RuleError
	if errors.As(err, &bad) {
		r := &b.Rows[at[bad.Row]]
		r.Problem, r.AtValue = problemIn(f.speaks(), bad.Problem), bad.Value
		b.Problem = f.speaks().T("Row %[1]s: %[2]s", at[bad.Row]+1, r.Problem)
		return
	}
	if built != b.Built {
		f.Values.Set("where", built)
		b.Shown, b.Built, b.FromRows = built, built, true
	}
}

// change adds or removes a row, if the pressed button says so.
func (b *builder) change(pressed string, f *form) bool {
	switch name, number, _ := strings.Cut(pressed, "-"); name {
	case "more":
		if len(b.Rows) < audience.MaxRules {
			b.Rows = append(b.Rows, builderRow{N: len(b.Rows), Focus: true, Rule: audience.Rule{Op: audience.RuleIs}})
		}
		b.Problem = ""
		for i := range b.Rows {
			b.Rows[i].Problem = ""
		}
	case "drop":
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= len(b.Rows) {
			return true
		}
		b.Rows = append(b.Rows[:n], b.Rows[n+1:]...)
		if len(b.Rows) == 0 {
			b.Rows = []builderRow{{Rule: audience.Rule{Op: audience.RuleIs}}}
		}
		for i := range b.Rows {
			b.Rows[i].N, b.Rows[i].Problem = i, ""
		}
		b.Rows[min(n, len(b.Rows)-1)].Focus = true
		b.Problem = ""
		b.write(f)
	default:
		return false
	}
	return true
}
