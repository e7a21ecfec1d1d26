package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestEachPackageIsInOneRun(t *testing.T) {
	t.Chdir("../..")
	with, without, err := divide(t.Context(), []string{"./internal/engine/reactor/..."}, []string{"./tools/testrun", "./internal/engine/reactor/http1", "./internal/engine/reactor/...", "./tools/..."})
	if err != nil {
		t.Fatal(err)
	}
	if with[0] != "godwit.dev/godwit/internal/engine/reactor/http1" || without[0] != "godwit.dev/godwit/tools/testrun" {
		t.Errorf("the first packages are %s and %s, not those named first", with[0], without[0])
	}
	all, err := list(t.Context(), []string{"./internal/engine/reactor/...", "./tools/..."})
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Sorted(slices.Values(slices.Concat(with, without)))
	if !slices.Equal(both, all) {
		t.Errorf("the runs have\n%q\nof\n%q", both, all)
	}
	for _, p := range without {
		if strings.Contains(p, "/reactor") {
			t.Errorf("%s is tested without the race detector", p)
		}
	}
}

func TestUnknownPatternIsAnError(t *testing.T) {
	if _, _, err := divide(t.Context(), nil, []string{"./nowhere/..", "./neither"}); err == nil {
		t.Error("a pattern that matches no folder is accepted")
	}
}

func TestLinesOfTwoRunsStayWhole(t *testing.T) {
	var printed bytes.Buffer
	out := &lines{to: &printed}
	const each = 200
	var wg sync.WaitGroup
	for _, letter := range []string{"a", "b"} {
		r, w := io.Pipe()
		wg.Go(func() {
			for i := range each {
				for part := range strings.SplitSeq(strings.Repeat(letter, i%7+1), "") { // written in pieces, as a pipe may split them
					fmt.Fprint(w, part)
				}
				fmt.Fprintln(w)
			}
			w.Close()
		})
		wg.Go(func() {
			if err := out.copyLines(r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := strings.Split(strings.TrimSuffix(printed.String(), "\n"), "\n")
	if len(got) != 2*each {
		t.Errorf("%d lines are printed, not %d", len(got), 2*each)
	}
	for _, line := range got {
		if strings.Contains(line, "a") && strings.Contains(line, "b") {
			t.Errorf("two lines are mixed: %q", line)
		}
	}
}

func TestBothRunsTogetherTestAsManyPackagesAtOnceAsTheyMay(t *testing.T) {
	for _, c := range []struct {
		atOnce        int
		raced, others bool
		first, second int
	}{{8, true, true, 1, 7}, {16, true, true, 3, 13}, {2, true, true, 1, 1}, {1, true, true, 1, 1}, {8, false, true, 0, 8}, {8, true, false, 8, 0}} {
		if first, second := share(c.atOnce, c.raced, c.others); first != c.first || second != c.second {
			t.Errorf("%+v: %d and %d", c, first, second)
		}
	}
}
