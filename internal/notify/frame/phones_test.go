package frame_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExamplesForPhonesReadWhatIsSent compares the field names in the examples for apps with those in the test vectors, since no compiler
// for these examples runs here.
func TestExamplesForPhonesReadWhatIsSent(t *testing.T) {
	type vector struct {
		Steps []struct {
			FCM, APNs map[string]any
			Post      map[string]any
		}
	}
	sent := map[string]map[string]bool{"android": {"channel_id": true, "url": true}, "ios": {}} // fields that any message may have in addition
	posted, events := make(map[string]bool), make(map[string]bool)
	for _, c := range load[vector](t, "push") {
		for _, s := range c.Steps {
			for name := range s.FCM {
				sent["android"][name] = true
			}
			for name := range s.APNs {
				sent["ios"][name] = true
			}
			for name := range s.Post {
				posted[name] = true
			}
			if e, ok := s.Post["event"].(string); ok {
				events[e] = true
			}
		}
	}
	sent["android"]["tag"] = true // docs/reference/fcm-payload.md
	read := regexp.MustCompile(`"(godwit_[a-z]+)"|\bdata\["([a-z_]+)"\]`)
	for _, system := range []string{"android", "ios"} {
		text := sources(t, filepath.Join("..", "..", "..", "examples", system))
		used := make(map[string]bool)
		for _, m := range read.FindAllStringSubmatch(text, -1) {
			used[m[1]+m[2]] = true
		}
		for name := range used {
			if !sent[system][name] {
				t.Errorf("%s: reads %s, which no message has", system, name)
			}
		}
		for _, name := range []string{"godwit_id", "godwit_ack", "godwit_settle", "godwit_recall"} {
			if !used[name] {
				t.Errorf("%s: does not read %s", system, name)
			}
		}
		for _, word := range slices.Concat([]string{"/v1/acks", "500"}, quoted(posted), quoted(events)) {
			if !strings.Contains(text, word) {
				t.Errorf("%s: %s is nowhere", system, word)
			}
		}
	}
}

func sources(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.kt", "*.swift"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}

func quoted(set map[string]bool) (all []string) {
	for _, s := range slices.Sorted(maps.Keys(set)) {
		all = append(all, `"`+s+`"`)
	}
	return all
}
