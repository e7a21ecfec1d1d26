package faults

import (
	"strings"
	"testing"
)

// report contains the repairs' statements.
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

// said is a report's statement about a file's losses.
type said struct {
	anything    bool            // some is
	everything  bool            // it covers any missing item: it is about the whole file, or its last commits
	unnamed     int             // the most lost rows without names
	unbounded   bool            // and nobody knows how many
	names       map[string]bool // the last word of each named loss
	older       map[string]bool // items that may be in an older state than the last written
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

// compare reports altered items, and missing items that the report does not mention or contradicts. warned, if not nil, returns whether the
// server itself has reported damage.
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
			if file != "apps.db" && missing < s.least || missing > s.most { // for apps.db the report counts more kinds of rows than this test reads
				t.Errorf("%s: %d of %s are missing, and %d to %d are said to be: %+v", when, missing, file, s.least, s.most, r)
			}
			if missing > 0 && s.least == s.most {
				t.Logf("%s: %d of %s are missing, as was said exactly, %d of them by name", when, missing, file, missing-unnamed)
			}
		}
		if file == "mailbox.db" {
			continue
		}
		if file != "events.db" && unnamed > s.unnamed && !s.everything && !s.unbounded { // events are stored in chunks, and the report names chunks
			t.Errorf("%s: %d of %s are missing that are not named, and %d are said to be: %+v", when, unnamed, file, s.unnamed, r)
		}
		if missing > 0 {
			t.Logf("%s: %d of %d of %s are missing, %d of them named, of the rest at most %d (unbounded: %t, everything: %t)",
				when, missing, len(kept), file, missing-unnamed, s.unnamed, s.unbounded, s.everything)
		}
	}
}

// claimed returns the name that a repair uses for an item.
func claimed(file, key, _ string) string {
	if file == "campaign.db" {
		return strings.ReplaceAll(key, "-", "")
	}
	return key
}
