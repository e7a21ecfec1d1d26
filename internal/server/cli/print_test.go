package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestTextsOfOthersSteerNoTerminal prints texts that a device, a provider or a page may send.
func TestTextsOfOthersSteerNoTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &program{stdout: &out}
	hostile := "a\x1b[2Jb\rc\nd\te\x07f\u009b2Jg\u202eh\u2066i\u2028j\x7fk"
	if err := p.table([]string{"name"}, [][]string{{hostile}}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.ContainsAny(strings.ReplaceAll(got, "\n", ""), "\x1b\r\t\a\x7f\u009b\u202e\u2066\u2028") {
		t.Errorf("%q", got)
	}
}
