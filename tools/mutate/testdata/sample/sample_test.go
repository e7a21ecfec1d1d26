package sample

import (
	"strings"
	"testing"
)

func TestHalf(t *testing.T) {
	for n, want := range map[int]int{4: 2, 100: 50, 102: 50, 200: 50} {
		if got, err := Half(n); got != want || err != nil {
			t.Error(n, got, err)
		}
	}
	if _, err := Half(3); err == nil {
		t.Error("half of 3")
	}
}

func TestQuery(t *testing.T) {
	if Query(true) != "SELECT 1" || !strings.Contains(Query(false), "app = ?") {
		t.Error(Query(true), Query(false))
	}
}
