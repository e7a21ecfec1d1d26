package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAffectedAreWhatChangedAndAllThatIsBuiltFromIt(t *testing.T) {
	use := func(name string, uses ...string) pkg {
		p := pkg{name: module + "/" + name, dir: name, uses: map[string]bool{}}
		for _, u := range uses {
			p.uses[module+"/"+u] = true
		}
		return p
	}
	packages := []pkg{
		use("internal/testkit/archtest"), use("internal/objects/object"), use("internal/notify/session", "internal/objects/object"), use("internal/gateway"),
		use("cmd/godwit", "internal/notify/session", "internal/objects/object"), use("test/blackbox"), use("test/rides", "test/blackbox"), use("test/foreign", "test/blackbox"),
	}
	for _, c := range []struct {
		files []string
		want  string
	}{
		{nil, ""},
		{[]string{"Makefile"}, "internal/testkit/archtest"},
		{[]string{"internal/gateway/postingclient.go"}, "internal/testkit/archtest internal/gateway"},
		{[]string{"internal/gateway/testdata/fuzz/a/b"}, "internal/testkit/archtest internal/gateway"},
		{[]string{"internal/notify/session/session_test.go"}, "internal/testkit/archtest internal/notify/session"},
		{[]string{"internal/notify/session/session.go"}, "cmd/godwit internal/testkit/archtest internal/notify/session test/blackbox test/foreign test/rides"},
		{[]string{"internal/notify/session/session_test.go", "internal/gateway/postingclient.go"}, "internal/testkit/archtest internal/gateway internal/notify/session"},
		{[]string{"docs/guides/hooks.md"}, "internal/testkit/archtest test/foreign"},
		{[]string{"api/vectors/digests.json"}, "internal/testkit/archtest internal/objects/object"},
		{[]string{"go.sum"}, "cmd/godwit internal/testkit/archtest internal/gateway internal/objects/object internal/notify/session test/blackbox test/foreign test/rides"},
	} {
		got := affected(packages, c.files)
		slices.Sort(got)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], module+"/")
		}
		if want := slices.Sorted(strings.FieldsSeq(c.want)); !slices.Equal(got, want) {
			t.Errorf("%v: affected are %v, want %v", c.files, got, want)
		}
	}
}

func TestListKnowsTheUsersOfThisModule(t *testing.T) {
	t.Chdir("../..")
	packages, err := list(false)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range packages {
		known[p.name] = true
		if _, err := os.Stat(p.dir); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	for runner, programs := range unseen {
		for _, name := range append(programs, runner) {
			if !known[name] {
				t.Errorf("unseen names %s, which is no package", name)
			}
		}
	}
	for _, r := range readers {
		if _, err := os.Stat(r.prefix); err != nil || !known[r.pkg] {
			t.Errorf("readers: %s is read by %s: there is no such file or package", r.prefix, r.pkg)
		}
	}
	got := affected(packages, []string{"internal/notify/session/session.go"})
	for _, name := range []string{"internal/notify/session", "internal/server/app", "internal/gateway/wsgate", "clients/go", "test/rides", "test/faults"} {
		if !slices.Contains(got, module+"/"+name) {
			t.Errorf("after a change of session, %s is not tested", name) // only the tests of clients/go use it
		}
	}
	if got := affected(packages, []string{"internal/engine/latency/latency.go"}); reflect.DeepEqual(got, affected(packages, []string{"go.mod"})) {
		t.Error("after a change of a leaf everything is tested")
	}
}

func TestNearAreThoseThatImportWhatChanged(t *testing.T) {
	t.Chdir("../..")
	packages, err := list(true)
	if err != nil {
		t.Fatal(err)
	}
	got := affected(packages, []string{"internal/notify/session/session.go"})
	for name, want := range map[string]bool{"internal/notify/session": true, "internal/gateway/wsgate": true, "internal/server/cli": false, "test/rides": false} {
		if slices.Contains(got, module+"/"+name) != want {
			t.Errorf("after a change of session, %s is tested: %t, want %t", name, !want, want)
		}
	}
}
