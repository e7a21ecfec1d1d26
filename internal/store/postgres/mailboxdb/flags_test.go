package mailboxdb_test

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
)

func TestKeysOfIDsThatTellTheirTimeGrowWithIt(t *testing.T) {
	at := func(d time.Duration) string {
		var id ulid.ULID
		_ = id.SetTime(ulid.Timestamp(time.Date(2031, 5, 4, 3, 2, 1, 0, time.UTC).Add(d)))
		return id.String()
	}
	last := int64(0)
	for _, id := range []string{"018f0000-0000-7000-8000-000000000000", at(0), at(time.Millisecond), at(time.Hour)} {
		key := mailboxdb.IDKey("app", id)
		if key <= last {
			t.Errorf("the key of %s is %d, which is not above %d", id, key, last)
		}
		if key == mailboxdb.IDKey("other", id) {
			t.Errorf("%s has the same key in two apps", id)
		}
		last = key
	}
}

// Keys are stored: these must never change.
func TestKeysOfIDsStayTheSame(t *testing.T) {
	for id, want := range map[string]int64{
		"order-1":                              -2320815518585098712,
		"01ARZ3NDEKTSV4RRFFQ69G5FAV":           1541325822634103160,
		"01arz3ndektsv4rrffq69g5fav":           -7466173870419155029,
		"018f0000-0000-7000-8000-000000000000": 1796936251321311008,
		"018f0000-0000-4000-8000-000000000000": 665247321419589319,
		"018f0000-0000-7000-8000-00000000000z": 1796936251321729403,
	} {
		if got := mailboxdb.IDKey("app", id); got != want {
			t.Errorf("the key of %s is %d, want %d", id, got, want)
		}
	}
}
