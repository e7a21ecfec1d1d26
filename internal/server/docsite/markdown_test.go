package docsite

import (
	"strings"
	"testing"
)

func TestCellsWithoutTextAreNoHeadings(t *testing.T) {
	for source, want := range map[string]string{
		"| | where |\n|---|---|\n| a | b |\n": "<thead>\n<tr>\n<td></td>\n<th>where</th>\n</tr>\n</thead>",
		"| | |\n|---|---|\n| a | b |\n":       "<table tabindex=\"0\">\n<tbody>",
	} {
		d := parse([]byte(source))
		got, err := d.render(d.root)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), want) || strings.Contains(string(got), "<th></th>") {
			t.Errorf("%s\nis\n%s\nwithout\n%s", source, got, want)
		}
	}
}
