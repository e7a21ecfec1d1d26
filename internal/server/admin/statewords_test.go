package admin

import (
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/server/admin/words"
)

func TestProblemsOfStatesAreSaidInTheReadersLanguage(t *testing.T) {
	e := &campaign.StateError{Action: "be deleted", State: campaign.Running, Hint: "cancel it first"}
	for l, want := range map[*words.Language]string{
		words.English:      "A campaign that is running cannot be deleted: cancel it first.",
		words.Tagged("de"): "Die Kampagne (läuft) lässt sich nicht löschen: Brechen Sie sie erst ab.",
	} {
		if got := stateProblem(e).in(l); got != want {
			t.Errorf("%s: %q, want %q", l.Tag, got, want)
		}
	}
}

// TestEachProblemOfAStateIsOneOfTheCode finds texts that campaigns say in other words by now.
func TestEachProblemOfAStateIsOneOfTheCode(t *testing.T) {
	said := append(literalsBelow(t, "../../campaigns/campaign"), "nothing of it was sent over telegram, and what was sent elsewhere stays as it is")
	for _, known := range problemsOfStates {
		_, rest, _ := strings.Cut(strings.TrimSuffix(known, "."), " cannot ")
		for part := range strings.SplitSeq(rest, ": ") {
			if !slices.Contains(said, part) {
				t.Errorf("no campaign says %q", part)
			}
		}
	}
}
