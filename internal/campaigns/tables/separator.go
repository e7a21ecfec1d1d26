package tables

import (
	"bytes"
	"fmt"
	"strings"
)

// separators are the possible separators of cells, the most likely first.
const separators = ",;\t|"

var separatorNames = map[string]byte{"comma": ',', "semicolon": ';', "tab": '\t', "pipe": '|', `\t`: '\t'}

// SeparatorName returns a separator's name for people.
func SeparatorName(c byte) string {
	for name, is := range separatorNames {
		if is == c && name != `\t` {
			return name
		}
	}
	return string(c)
}

func namedSeparator(s string) (byte, error) {
	if c, ok := separatorNames[strings.ToLower(s)]; ok {
		return c, nil
	}
	if len(s) == 1 && strings.Contains(separators, s) {
		return s[0], nil
	}
	return 0, fmt.Errorf("%.20q separates no cells: it is comma, semicolon, tab or pipe", s)
}

// findSeparator returns the separator of the headings: the one that gives the most known names, then the most frequent one.
func findSeparator(heading []byte) byte {
	best, most := separators[0], -1
	for i := range len(separators) {
		c := separators[i]
		cells := headings(heading, c)
		score := len(cells) - 1
		for _, cell := range cells {
			if _, known := knownColumn(cell); known && len(cells) > 1 {
				score += 1000
			}
		}
		if score > most {
			best, most = c, score
		}
	}
	return best
}

func headings(text []byte, separator byte) []string {
	var q quotes
	cells := []string{""}
	for i, c := range bytes.TrimRight(text, "\r\n") {
		if q.read(text[i:i+1], separator); c == separator && q.state == begin {
			cells = append(cells, "")
			continue
		}
		if c != '"' {
			cells[len(cells)-1] += string(rune(c))
		}
	}
	return cells
}

// excelHint parses a first line that names the separator for Excel: sep=;
func excelHint(text []byte) (byte, bool) {
	rest, ok := bytes.CutPrefix(bytes.Trim(bytes.ToLower(bytes.TrimRight(text, "\r\n")), `"`), []byte("sep="))
	if !ok || len(rest) != 1 || !strings.Contains(separators, string(rest)) {
		return 0, false
	}
	return rest[0], true
}
