package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
)

// SourceRecords checks what sources keep beside their settings, in stores that are empty. eraseApp deletes all data of an app.
func SourceRecords(t *testing.T, r source.Records, eraseApp func(ctx context.Context, app string) error) {
	t.Helper()
	mine, other := setting.Place{App: "shop", Name: "orders"}, setting.Place{App: "bank", Name: "orders"}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	position := func(at setting.Place, want string) {
		t.Helper()
		if got, err := r.Position(t.Context(), at); err != nil || string(got) != want {
			t.Errorf("%v: position %q, %v; want %q", at, got, err, want)
		}
	}
	page := func(at setting.Place, below int64, limit int, first string, n int) []source.SetAside {
		t.Helper()
		got, err := r.Quarantine(t.Context(), at, below, limit)
		if err != nil || len(got) != n || n > 0 && got[0].Why != first {
			t.Fatalf("%v below %d: %d entries, %v; want %d from %s on", at, below, len(got), err, n, first)
		}
		return got
	}
	position(mine, "")
	ok(r.Note(t.Context(), mine, []byte("1")))
	ok(r.Note(t.Context(), mine, []byte("2")))
	ok(r.Note(t.Context(), other, []byte("3")))
	position(mine, "2")

	when := time.UnixMilli(1_700_000_000_123).UTC()
	var many []source.SetAside
	for i := range source.MaxSetAside + 1 {
		many = append(many, source.SetAside{At: when, From: "table\x00 t", Why: fmt.Sprint("why ", i), Text: []byte{0, 0xff}})
	}
	ok(r.SetAside(t.Context(), mine, many[:2]))
	ok(r.SetAside(t.Context(), mine, many[2:]))
	ok(r.SetAside(t.Context(), other, []source.SetAside{{At: when, Why: "other"}}))
	newest := page(mine, 0, 10, fmt.Sprint("why ", source.MaxSetAside), 10)
	if e := newest[0]; !e.At.Equal(when) || e.From != "table? t" || string(e.Text) != "\x00\xff" {
		t.Errorf("an entry is %+v", e)
	}
	page(mine, newest[9].Number, source.MaxSetAside, fmt.Sprint("why ", source.MaxSetAside-10), source.MaxSetAside-10)

	ok(r.Forget(t.Context(), mine, false))
	page(mine, 0, 10, "", 0)
	position(mine, "2")
	ok(r.Forget(t.Context(), mine, true))
	position(mine, "")
	page(other, 0, 10, "other", 1)
	position(other, "3")
	ok(eraseApp(t.Context(), "bank"))
	page(other, 0, 10, "", 0)
	position(other, "")
}
