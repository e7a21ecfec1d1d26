package tracedb_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store/sqlite/tracedb"
)

func open(t *testing.T, path string) *tracedb.Store {
	t.Helper()
	s, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func kept(t *testing.T, s *tracedb.Store) []tracing.Kept {
	t.Helper()
	list, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFollowedCopiesSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.db")
	one := tracing.Kept{Copy: tracing.Copy{App: "demo", Recipient: "ann", ID: "1"}, Parent: "00-a-b-01", State: "x=y", Until: time.UnixMilli(1_800_000_000_000)}
	two := one
	two.ID = "2"
	s := open(t, path)
	if err := s.Save(t.Context(), []tracing.Kept{one, two}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if got := kept(t, s); !reflect.DeepEqual(got, []tracing.Kept{one, two}) {
		t.Errorf("kept are %+v", got)
	}
	if err := s.Save(t.Context(), nil, []tracing.Copy{one.Copy}); err != nil {
		t.Fatal(err)
	}
	if got := kept(t, s); !reflect.DeepEqual(got, []tracing.Kept{two}) {
		t.Errorf("after one was dropped, kept are %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFileThatCannotBeReadIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.db")
	if err := os.WriteFile(path, []byte("this is no database, and long enough to be looked at as one: "+string(make([]byte, 4096))), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if got := kept(t, s); len(got) != 0 {
		t.Errorf("kept are %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
