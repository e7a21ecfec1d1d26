package frame_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExampleForPhonesReadsWhatIsSent compares the field names in the example for iPhones with those in the test vectors, since no compiler
// for it runs here. That for Android is compiled and tested with the Kotlin client.
func TestExampleForPhonesReadsWhatIsSent(t *testing.T) {
	type vector struct {
		Steps []struct {
			APNs, Post map[string]any
		}
	}
	sent, posted, events := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, name := range []string{"godwit_track", "godwit_badge", "godwit_object"} {
		sent[name] = true // any message may have them
	}
	for _, c := range load[vector](t, "push") {
		for _, s := range c.Steps {
			for name := range s.APNs {
				sent[name] = true
			}
			for name := range s.Post {
				posted[name] = true
			}
			if e, ok := s.Post["event"].(string); ok {
				events[e] = true
			}
		}
	}
	text := sources(t, filepath.Join("..", "..", "..", "examples", "ios"))
	used := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"(godwit_[a-z]+)"`).FindAllStringSubmatch(text, -1) {
		used[m[1]] = true
	}
	for name := range used {
		if !sent[name] {
			t.Errorf("reads %s, which no message has", name)
		}
	}
	for _, name := range []string{"godwit_id", "godwit_ack", "godwit_settle", "godwit_recall"} {
		if !used[name] {
			t.Errorf("does not read %s", name)
		}
	}
	for _, word := range slices.Concat([]string{"/v1/acks", "500"}, quoted(posted), quoted(events)) {
		if !strings.Contains(text, word) {
			t.Errorf("%s is nowhere", word)
		}
	}
}

func sources(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".swift" {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func quoted(set map[string]bool) (all []string) {
	for _, s := range slices.Sorted(maps.Keys(set)) {
		all = append(all, `"`+s+`"`)
	}
	return all
}
