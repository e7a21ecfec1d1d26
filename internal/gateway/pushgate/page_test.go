package pushgate_test

import (
	"testing"

	"godwit.dev/godwit/internal/server/module"
)

// counted is the number that a table of the page has for a metric.
func counted(t *testing.T, v module.View, metric string) int64 {
	t.Helper()
	for _, table := range v.Tables {
		for _, row := range table.Rows {
			if row[len(row)-1].Name == metric {
				return *row[1].Count
			}
		}
	}
	t.Errorf("the page lacks %s", metric)
	return -1
}

func TestPageShowsDevicesChannelsAndDrops(t *testing.T) {
	w := start(t)
	d, k := w.device(t), newKey(t)
	_, endpoint := d.register("")
	d.register(k.public)
	w.message(t, endpoint, "shown", sealed("60"))
	d.ack(d.want("shown"))
	w.send(t, endpoint, post{body: "x" + string(make([]byte, 6000)), header: sealed("60")})
	away := w.device(t)
	_, gone := away.register("")
	away.disconnect()
	w.message(t, gone, "dropped", sealed("0"))
	v, err := w.gate.Page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{2, 1, 3, 1} {
		if f := v.Figures[i]; f.Count != want {
			t.Errorf("%d %s, want %d", f.Count, f.Label, want)
		}
	}
	for metric, want := range map[string]int64{
		`godwit_push_service_messages_total{outcome="stored"}`: 1, `godwit_push_service_messages_total{outcome="dropped"}`: 1, `godwit_push_service_refusals_total{errno="104"}`: 1, `godwit_push_service_refusals_total{errno="102"}`: 0,
		`godwit_push_service_acks_total{code="100"}`: 1, `godwit_push_service_hellos_total`: 2, `godwit_push_service_registrations_total{kind="register",status="200"}`: 3,
	} {
		if n := counted(t, v, metric); n != want {
			t.Errorf("%s is %d, want %d", metric, n, want)
		}
	}
	list := v.Tables[len(v.Tables)-1].Rows
	if len(list) != 2 || *list[0][2].Count != 1 || *list[1][2].Count != 2 || *list[1][3].Count != 1 || list[0][0].Name == "" {
		t.Errorf("devices %+v", list)
	}
}
