package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/thorough"
)

func TestNamesAreASet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s, want := newNames(), map[string]struct{}{}
	steps := thorough.Rounds(40_000, 200_000)
	for step := range steps {
		name := fmt.Sprint(rnd.IntN(3000))
		if name = strings.Repeat(name, rnd.IntN(2)*100+1); rnd.IntN(1000) == 0 {
			name = ""
		}
		if rnd.IntN(100) < 20+80*step/steps { // it fills, and empties again
			s.remove(name)
			delete(want, name)
		} else {
			s.add(name)
			want[name] = struct{}{}
		}
		if _, ok := want[name]; s.has(name) != ok || s.n != len(want) {
			t.Fatalf("step %d: it has %.20q: %t; %d names, want %d", step, name, !ok, s.n, len(want))
		}
		if step%10_000 == 0 {
			if got, all := slices.Sorted(s.all()), slices.Sorted(maps.Keys(want)); !slices.Equal(got, all) {
				t.Fatalf("step %d: %d names differ from %d", step, len(got), len(all))
			}
		}
	}
	for name := range want {
		s.remove(name)
	}
	if s.n != 0 || len(s.slots) > 2*minSlots || len(s.text) > 1000 {
		t.Errorf("empty, it has %d names, %d slots and %d bytes", s.n, len(s.slots), len(s.text))
	}
}

func TestNamesAreSmall(t *testing.T) {
	const n, most = 20_000, 36
	s := newNames()
	for i := range n {
		s.add(fmt.Sprintf("recipient-%010d", i))
	}
	each := (cap(s.text) + 4*cap(s.slots)) / n
	t.Logf("%d bytes a name of 20", each)
	if each > most {
		t.Errorf("a name of 20 bytes takes %d; at most %d", each, most)
	}
}
