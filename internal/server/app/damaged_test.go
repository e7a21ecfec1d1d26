package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Operators of many servers notice damage by the metric.
func TestAMetricTellsOfDamage(t *testing.T) {
	cfg := settings(t)
	a := start(t, cfg)
	url := "http://" + a.Addresses().HTTP
	metric := func() string {
		_, body, _ := ask(t, http.MethodGet, url+"/metrics", "")
		_, rest, _ := strings.Cut(body, "\ngodwit_store_damaged ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	for i := range 20 {
		if status, answer, _ := ask(t, http.MethodPost, url+"/v1/notifications", fmt.Sprintf(`{"to":"anna","id":"n%d","title":"Hi"}`, i)); status != http.StatusCreated {
			t.Fatalf("publishing answers %d: %s", status, answer)
		}
	}
	if m := metric(); m != "0" {
		t.Errorf("of a sound store it says %q", m)
	}
	// The server decides whether a page is in the log or in the database.
	harm(t, filepath.Join(cfg.Data, "*.db-wal"), 32+24+2000, 4096+24)
	harm(t, filepath.Join(cfg.Data, "*.db"), 4096+2000, 4096)
	for i := range 20 {
		ask(t, http.MethodGet, fmt.Sprintf("%s/v1/notifications/n%d", url, i), "")
	}
	if m := metric(); m != "1" {
		t.Errorf("of a damaged store it says %q", m)
	}
	if status, answer, _ := ask(t, http.MethodGet, url+"/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d: %s", status, answer)
	}
}

// harm changes one bit in each page of files that are in use.
func harm(t *testing.T, pattern string, first, step int64) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		for at := first; ; at += step {
			if _, err := f.ReadAt(b[:], at); err != nil {
				break // the end
			}
			b[0] ^= 4
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
	}
}
