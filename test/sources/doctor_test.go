package sources

import (
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

func TestDoctorExaminesTheServersOfSources(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Options{})
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	s.API().Call(t, http.MethodPut, "/v1/sources/orders", map[string]any{"kind": "postgres", "url": db.URL(), "password": "sekret-of-the-database"}, nil)
	out, err := s.Run("doctor", "--data", s.Dir)
	for _, want := range []string{"bad  source       orders of app demo: wal_level is replica", "hint: ALTER SYSTEM SET wal_level = logical", "max_slot_wal_keep_size is unlimited", "godwit_demo does not exist"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not say %q", want)
		}
	}
	if err == nil || strings.Contains(out, "sekret") || t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}
