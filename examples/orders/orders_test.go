package main

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

func TestDriversHearOfCommittedOrdersAlone(t *testing.T) {
	db := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "logical"}})
	s := blackbox.Start(t, blackbox.Plain(), blackbox.Dev(), blackbox.Args("--allow-private-urls"))
	out := &strings.Builder{}
	if err := run(t.Context(), s.URL(""), db.URL(), out); err != nil {
		t.Fatal(err)
	}
	want := `the order to 1 Quay Street is committed
driver-42 got: New order to 1 Quay Street
the order to 2 Nowhere Lane is rolled back: nobody paid
the order to 3 Harbour Road is committed
driver-42 got: New order to 3 Harbour Road
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
