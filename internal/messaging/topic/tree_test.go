package topic_test

import (
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
)

func FuzzTree(f *testing.F) {
	f.Add("rides.> rides.* rides.oslo > *.oslo a.b.c *.*.> rides.>", "rides.oslo", 2)
	f.Add("a a.b a.* a.> a.*.c", "a.b.c", 0)
	f.Fuzz(func(t *testing.T, patterns, name string, gone int) {
		list := slices.DeleteFunc(strings.Fields(patterns), func(p string) bool { return topic.CheckPattern("", p) != nil })
		if topic.CheckName("", name) != nil {
			t.Skip()
		}
		var tree topic.Tree[int]
		for i, p := range list {
			tree.Insert(p, i)
		}
		for i, p := range list {
			if i%2 == gone&1 {
				tree.Remove(p, i)
				tree.Remove(p, i)
			}
		}
		var got, want []int
		tree.Match(name, func(i int) { got = append(got, i) })
		for i, p := range list {
			if i%2 != gone&1 && topic.Match(p, name) {
				want = append(want, i)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%q finds %v of %q without each second, want %v", name, got, list, want)
		}
		for i, p := range list {
			tree.Remove(p, i)
		}
		tree.Match(name, func(i int) { t.Fatalf("%q still finds %d", name, i) })
	})
}
