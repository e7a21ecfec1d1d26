package tables

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// kind is how the cells of a column are interpreted.
type kind uint8

const (
	open   kind = iota // the first cell that is not empty decides
	text               // as they are
	number             // as numbers
	truth              // as true and false
	ours               // in the format of Godwit's own exports
)

func (k kind) String() string {
	return [...]string{"text", "text", "numbers", "true and false", "as exported"}[k]
}

// plainNumber matches numbers. A leading zero, a plus sign or an exponent makes a text, such as a phone number or a postal code.
var plainNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)

// readNumber parses a number; ok is false if s is not one or cannot be stored exactly.
func readNumber(s string) (v audience.Value, ok bool) {
	if !plainNumber.MatchString(s) || strings.TrimRight(s, "0.") == "-" {
		return v, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !audience.Exact(s, n) {
		return v, false
	}
	return audience.Number(n), true
}

// truths are the words of spreadsheets for true and false: the English ones in any case, those of other languages in capitals.
var truths = map[string]bool{
	"TRUE": true, "FALSE": false, "WAHR": true, "FALSCH": false, "VRAI": true, "FAUX": false, "VERDADERO": true, "FALSO": false, "VERO": true,
	"VERDADEIRO": true, "WAAR": true, "ONWAAR": false, "PRAWDA": true, "FAŁSZ": false, "ИСТИНА": true, "ЛОЖЬ": false, "SANT": true, "FALSKT": false,
	"SANN": true, "USANN": false, "SAND": true, "FALSK": false,
}

// saidTruths are additional words for a column whose heading declares booleans.
var saidTruths = map[string]bool{"YES": true, "NO": false, "Y": true, "N": false, "T": true, "F": false, "1": true, "0": false, "ON": true, "OFF": false}

func readTruth(s string, said bool) (v audience.Value, ok bool) {
	upper := strings.ToUpper(s)
	is, ok := truths[s]
	if !ok && (said || upper == "TRUE" || upper == "FALSE") {
		if is, ok = truths[upper]; !ok && said {
			is, ok = saidTruths[upper]
		}
	}
	return audience.Bool(is), ok
}

// reads reports whether a cell can be read as this kind.
func (k kind) reads(s string) bool {
	switch k {
	case number:
		_, ok := readNumber(s)
		return ok
	case truth:
		_, ok := readTruth(s, false)
		return ok
	}
	return true
}

// kindOf returns the kind of a cell by itself.
func kindOf(s string) kind {
	for _, k := range []kind{number, truth} {
		if k.reads(s) {
			return k
		}
	}
	return text
}

// settle returns a kind that fits all cells of a column. why is the cell that makes the column text although other cells have a more
// specific kind.
func settle(cells []string) (k kind, why string) {
	some := open // of the cells that are no text by themselves
	for _, s := range cells {
		switch is := kindOf(s); {
		case s == "":
		case is == text || some != open && is != some:
			if why == "" {
				why = s
			}
			k = text
			if is != text {
				some = is
			}
		default:
			some = is
			if k != text {
				k = is
			}
		}
	}
	if some == open {
		why = ""
	}
	return k, why
}

// value parses a column's cell. warning is not empty if the cell does not fit the column's kind.
func (c *Column) value(s string) (v audience.Value, warning string, err error) {
	if c.kind == open {
		c.kind = kindOf(s)
	}
	ok := true
	switch c.kind {
	case ours:
		return audience.ReadCell(s), "", nil
	case number:
		v, ok = readNumber(s)
	case truth:
		v, ok = readTruth(s, c.said)
	default:
		v = audience.Text(audience.Unguarded(s))
	}
	switch {
	case ok:
		return v, "", nil
	case c.said:
		return v, "", fmt.Errorf("%s: %.40q cannot be read as %s, as the heading says", c.Name, s, c.kind)
	}
	return audience.Text(s), fmt.Sprintf("%s: %.40q cannot be read as %s like those before, and is kept as text", c.Name, s, c.kind), nil
}
