package admin

import (
	"testing"

	"godwit.dev/godwit/internal/server/admin/words"
)

func TestReasonsOfDecisionsAreSaidInTheReadersLanguage(t *testing.T) {
	german := words.Tagged("de")
	for stored, want := range map[string]string{
		"somebody chose it": "jemand hat es so gewählt",
		"no clicks were counted, so the rest gets the first variant":       "es wurden keine Klicks gezählt, daher bekommt der Rest die erste Variante",
		"B has the larger share: 5 clicks of 1198 for A, 12 of 2000 for B": "B hat den größeren Anteil: 5 Klicks von 1.198 bei A, 12 von 2.000 bei B",
		"a reason of another version":                                      "a reason of another version",
	} {
		if got := decisionReason(german, stored); got != want {
			t.Errorf("%q is %q, want %q", stored, got, want)
		}
		if got := decisionReason(words.English, "somebody chose it"); got != "somebody chose it" {
			t.Errorf("in English: %q", got)
		}
	}
}
