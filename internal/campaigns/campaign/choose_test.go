package campaign

import (
	"fmt"
	"testing"
)

func TestTheBetterVariantHasTheLargerShare(t *testing.T) {
	for _, c := range []struct {
		name     string
		ofA, ofB int64
		a, b     int64
		want     string
	}{
		{"more clicks among as many", 100, 100, 3, 5, "B"},
		{"fewer clicks among fewer", 1000, 100, 20, 3, "B"},
		{"more clicks of a smaller share", 100, 1000, 3, 20, "A"},
		{"the same share", 100, 200, 5, 10, "A"},
		{"no clicks", 100, 100, 0, 0, "A"},
		{"nobody got the first", 0, 100, 0, 1, "B"},
		{"nobody got the second", 100, 0, 1, 0, "A"},
	} {
		var f Figures
		f.Groups[GroupA] = GroupFigures{Counts: map[Outcome]int64{Accepted: c.ofA}, Clicked: c.a, Shown: c.b}
		f.Groups[GroupB] = GroupFigures{Counts: map[Outcome]int64{Accepted: c.ofB - c.ofB/2, Unknown: c.ofB / 2}, Clicked: c.b, Shown: c.a}
		if got := choose(Clicks, &f); got.Variant != c.want || got.Reason == "" {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	var f Figures
	f.Groups[GroupA] = GroupFigures{Counts: map[Outcome]int64{Accepted: 10}, Shown: 1, Clicked: 9}
	f.Groups[GroupB] = GroupFigures{Counts: map[Outcome]int64{Accepted: 10}, Shown: 2}
	if got := choose(Shows, &f); got.Variant != "B" || got.Reason != "B has the larger share: 1 views of 10 for A, 2 of 10 for B" {
		t.Errorf("by what was shown: %+v", got)
	}
}

func TestGroupsHaveTheirSharesAndChangeWithTheCampaign(t *testing.T) {
	const people = 10_000
	var before []Group
	for _, id := range []string{"01M8JMFZJ58K464K06YGG7JSHA", "01M8JMG36XBZH5JBTEZSZJKJ9A"} {
		c := &Campaign{ID: id, Spec: Spec{Variants: []Variant{{Share: 20}, {Share: 10}}}}
		var n [Groups]int
		groups := make([]Group, people)
		both := 0
		for i := range groups {
			groups[i] = c.group(&Target{Recipient: fmt.Sprintf("r%d", i)})
			n[groups[i]]++
			if before != nil && groups[i] == GroupA && before[i] == GroupA {
				both++
			}
			if again := c.group(&Target{Recipient: fmt.Sprintf("r%d", i), Row: int64(i)}); again != groups[i] {
				t.Fatalf("another endpoint of r%d is in group %d, and the first in %d", i, again, groups[i])
			}
		}
		// The bounds are five standard deviations.
		if n[Whole] != 0 || n[GroupA] < 1800 || n[GroupA] > 2200 || n[GroupB] < 850 || n[GroupB] > 1150 {
			t.Errorf("of %d people %d are in A and %d in B", people, n[GroupA], n[GroupB])
		}
		if before != nil && (both < 300 || both > 500) {
			t.Errorf("%d are in A twice, want about 4 %%", both)
		}
		before = groups
	}
}
