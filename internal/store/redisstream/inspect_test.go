package redisstream

import (
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestAnInspectionFindsWhatIsOddAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	const client = "c5ec0a6a-8e2b-4b6f-9d5e-3f1a2b4c5d6e"
	key := Key(client, 64)
	do(t, r, "XADD "+key+xadd)
	do(t, r, "XADD "+key+strings.Replace(xadd, "2126", "2025", 1)) // long expired
	do(t, r, "XADD "+key+" * id n")
	do(t, r, "XADD Nann{0}"+xadd) // no UUID: it is in shard 0 for any number of shards
	do(t, r, "SET NS:token{1} ann")
	do(t, r, "XADD godwit:quarantine{5} * quarantine.error x")
	for _, shards := range []int{64, 5} {
		in, err := Inspect(t.Context(), []string{r.URL()}, shards)
		if err != nil {
			t.Fatal(err)
		}
		misplaced := 0
		if shards == 5 {
			misplaced = 1
		}
		if in.Streams != 2 || in.Misplaced != misplaced || in.Entries != 4 || in.Orphans != 1 || in.Poison != 1 || in.Partial || in.Finding != ByTracking || in.Cluster {
			t.Errorf("of %d shards: %+v", shards, in)
		}
		if !slices.Contains(in.Fits, 64) || slices.Contains(in.Fits, 1) {
			t.Errorf("fit: %v", in.Fits)
		}
		if !strings.Contains(in.Wrong.Error(), "is missing") || in.Version == "" || len(in.Masters) != 1 {
			t.Errorf("%+v", in)
		}
		if want := map[int]int{5: 1}; shards == 64 && (len(in.Quarantined) != 1 || in.Quarantined[5] != want[5]) {
			t.Errorf("in quarantine %v, want %v", in.Quarantined, want)
		}
	}
	if got := do(t, r, "XLEN "+key); !strings.Contains(got, "3") {
		t.Errorf("%s entries are left, want 3", got)
	}
}

func TestAnInspectionLooksAtAllMastersOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, true)
	l, err := dial(t.Context(), c.URLs())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, key := range []string{"Nann{0}", "Nbob{0}", "Ncarl{1}", "Ndan{2}", "Neve{3}", "Nfay{4}"} {
		add := l.main.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("a", "b").Build()
		if err := l.main.Do(t.Context(), add).Error(); err != nil {
			t.Fatal(err)
		}
	}
	in, err := Inspect(t.Context(), c.URLs(), 128)
	if err != nil {
		t.Fatal(err)
	}
	if in.Streams != 6 || in.Misplaced != 4 || in.Poison != 6 || !in.Cluster || len(in.Masters) != 3 || len(in.Fits) != 0 || in.Example == "" {
		t.Errorf("%+v", in)
	}
}
