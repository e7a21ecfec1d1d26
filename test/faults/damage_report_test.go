package faults

import (
	"strings"
	"testing"
)

// report is what repairs have said.
type report struct {
	Files []repaired
}

type repaired struct {
	File, State string
	Commits     int `json:"lost_commits"`
	Counts      []struct {
		What  string
		Least int `json:"at_least"`
		Most  int `json:"at_most"`
	} `json:"lost_in_all"`
	Lost []struct {
		What, Key, To string
		Rows          int
		AtMost        bool `json:"at_most"`
	}
}

// said is what the report says about a file's losses.
type said struct {
	anything    bool            // some is
	everything  bool            // whatever is missing is among it: it was said of the whole file, or of its last commits
	unnamed     int             // rows that are not named, at most
	unbounded   bool            // and nobody knows how many
	names       map[string]bool // the last word of what is named
	older       map[string]bool // what may be older than what was written last
	least, most int             // in all, if counted
	counted     bool
}

func (r *report) of(file string) said {
	s := said{names: map[string]bool{}, older: map[string]bool{}}
	for _, f := range r.Files {
		if f.File != file {
			continue
		}
		s.everything = s.everything || f.Commits > 0 || f.State == "lost"
		s.anything = s.anything || s.everything || len(f.Lost) > 0 || len(f.Counts) > 0
		for _, c := range f.Counts {
			s.counted, s.least, s.most = true, s.least+c.Least, s.most+c.Most
		}
		for _, l := range f.Lost {
			words := strings.Fields(l.Key)
			switch {
			case strings.HasPrefix(l.What, "changes of") && len(words) > 0:
				s.older[words[len(words)-1]] = true
			case l.AtMost || l.Rows != 1 || len(words) == 0:
				s.unnamed += l.Rows
				s.unbounded = s.unbounded || l.Rows == 0
			case l.To != "":
				s.names[copyName(words[len(words)-1], l.To)] = true
			default:
				s.names[words[len(words)-1]] = true
			}
		}
	}
	return s
}

// compare says what is altered, and what is missing although nobody has said so, or has said otherwise. warned, if not nil, tells whether
// the server itself has said that something is damaged.
func compare(t *testing.T, when string, want, got content, r *report, warned func() bool) {
	t.Helper()
	for file, kept := range want {
		missing, unnamed, s := 0, 0, r.of(file)
		for key, value := range kept {
			is, ok := got[file][key]
			name := claimed(file, key, value)
			switch {
			case !ok:
				missing++
				if !s.names[name] {
					unnamed++
				}
			case is != value && value != "" && (file != "objects.db" || !s.older[name] && !s.everything):
				t.Errorf("%s: %s of %s is altered: %.80q is %.80q", when, key, file, value, is)
			case s.names[name]:
				t.Errorf("%s: %s of %s is there and was called lost", when, key, file)
			}
		}
		if missing > 0 && !s.anything && (warned == nil || !warned()) {
			t.Errorf("%s: %d of %d of %s are missing, and nobody says so", when, missing, len(kept), file)
		}
		if warned != nil {
			continue
		}
		if file != "events.db" { // counted, whether named or not
			if file != "apps.db" && missing < s.least || missing > s.most { // of apps, more is counted than is looked at here
				t.Errorf("%s: %d of %s are missing, and %d to %d are said to be: %+v", when, missing, file, s.least, s.most, r)
			}
			if missing > 0 && s.least == s.most {
				t.Logf("%s: %d of %s are missing, as was said exactly, %d of them by name", when, missing, file, missing-unnamed)
			}
		}
		if file == "mailbox.db" {
			continue
		}
		if file != "events.db" && unnamed > s.unnamed && !s.everything && !s.unbounded { // events lie in chunks, which are what is named
			t.Errorf("%s: %d of %s are missing that are not named, and %d are said to be: %+v", when, unnamed, file, s.unnamed, r)
		}
		if missing > 0 {
			t.Logf("%s: %d of %d of %s are missing, %d of them named, of the rest at most %d (unbounded: %t, everything: %t)",
				when, missing, len(kept), file, missing-unnamed, s.unnamed, s.unbounded, s.everything)
		}
	}
}

// claimed is what a repair calls a thing.
func claimed(file, key, _ string) string {
	if file == "campaign.db" {
		return strings.ReplaceAll(key, "-", "")
	}
	return key
}
