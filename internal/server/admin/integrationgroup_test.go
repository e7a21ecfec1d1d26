package admin

import (
	"strconv"
	"testing"
)

func TestAGroupOfIntegrationsIsBoundedAndMarksWhatFails(t *testing.T) {
	var g integrationGroup
	g.add(integration{Name: "failing", Error: "no answer"})
	g.add(integration{Name: "stopped", Error: "no answer", Paused: true})
	for i := range mostListed {
		g.add(integration{Name: strconv.Itoa(i)})
	}
	if len(g.Items) != mostListed {
		t.Errorf("%d are shown, want at most %d", len(g.Items), mostListed)
	}
	for i, want := range []string{"failed", "paused", "completed"} {
		if got := g.Items[i].Class; got != want {
			t.Errorf("%s is marked %q, want %q", g.Items[i].Name, got, want)
		}
	}
}
