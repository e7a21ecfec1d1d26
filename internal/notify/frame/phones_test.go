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

// TestExamplesForPhonesReadWhatIsSent compares the field names in the examples for apps with those in the test vectors, since no compiler
// for these examples runs here.
func TestExamplesForPhonesReadWhatIsSent(t *testing.T) {
	type vector struct {
		Steps []struct {
			FCM, APNs map[string]any
			Post      map[string]any
		}
	}
	sent := map[string]map[string]bool{"android": {"channel_id": true, "url": true}, "ios": {"godwit_track": true, "godwit_badge": true, "godwit_object": true}} // fields that any message may have in addition
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
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains([]string{".kt", ".swift"}, filepath.Ext(path)) {
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
