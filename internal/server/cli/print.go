package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// table prints rows under headings. Cells may contain text from outside.
func (p *program) table(headings []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{headings}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = clean(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// clean prevents text from outside from controlling a terminal: it replaces control characters, and those that change the direction of a
// line, with spaces.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// Colours, by their purpose.
const (
	bold  = "1"
	green = "32"
	red   = "31"
	faint = "2"
)

func (p *program) paint(colour, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
