package scenario

import (
	"context"
	"slices"
	"testing"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

func TestBothStoresAreMeasuredInTurn(t *testing.T) {
	c := Common{Testbed: &testbed.Testbed{Server: testbed.ServerOptions{Dir: t.TempDir(), Postgres: &testbed.Postgres{Version: "15"}}}, Runs: 2}
	var order []string
	r, err := Beside(t.Context(), c, func(_ context.Context, side Common) (*report.Result, error) {
		on, rate := onSQLite, 200.0
		if side.Testbed.Server.Postgres != nil {
			on, rate = onPostgres, 100
		}
		order = append(order, on)
		if side.Runs != 1 || side.First != (len(order)-1)/2 {
			t.Errorf("measurement %d is of %d runs from %d on", len(order), side.Runs, side.First)
		}
		one := side.begin("unicast", "unicast")
		one.Add("", "publishes accepted", "/s", rate)
		one.Add("part", "publish to client p50", "ms", rate/100)
		return one, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{onSQLite, onPostgres, onPostgres, onSQLite}; !slices.Equal(order, want) {
		t.Errorf("measured on %v, want %v: who goes first alternates", order, want)
	}
	for _, want := range []struct {
		group, name string
		value       float64
	}{
		{onSQLite, "publishes accepted", 200},
		{onPostgres, "publishes accepted", 100},
		{onPostgres + ", part", "publish to client p50", 1},
		{onPostgres + " to " + onSQLite, "publishes accepted", 0.5},
		{onPostgres + " to " + onSQLite, "part, publish to client p50", 0.5},
	} {
		f := r.Figure(want.group, want.name)
		if f == nil || !slices.Equal(f.Values, []float64{want.value, want.value}) {
			t.Errorf("%s of %s is %+v, want %v twice", want.name, want.group, f, want.value)
		}
	}
}
