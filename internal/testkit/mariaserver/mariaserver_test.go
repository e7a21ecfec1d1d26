package mariaserver_test

import (
	"testing"

	"godwit.dev/godwit/internal/testkit/mariaserver/mariatest"
)

func TestCommittedRowsSurviveKill(t *testing.T) {
	t.Parallel()
	s := mariatest.Start(t)
	db, err := s.Open("shop")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE birds (name VARCHAR(20)); INSERT INTO birds VALUES ('godwit')"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := db.QueryRowContext(t.Context(), "SELECT name FROM birds").Scan(&name); err != nil || name != "godwit" {
		t.Errorf("after a restart it has %q, %v", name, err)
	}
}
