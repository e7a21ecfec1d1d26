package admin

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzCompact posts forms with arbitrary field names: the lines become consecutive, and no typed text is lost.
func FuzzCompact(f *testing.F) {
	f.Add("button-1-text=a&button-3-url=b&button-3-beside=on&title=x")
	f.Add("locale-1-button-2-text=a&locale-3-title=b&locale-3-action-0-title=c&then=more-locale-3-button")
	f.Add("locale-+1-button-00-text=a&locale--1-tag=b&button-100-text=c&locale-0-locale-0-tag=d&locale-0-button=e")
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil || len(v) > 200 {
			return
		}
		for name := range v { // browsers write each number in one way only
			if list, n, field, ok := listed(name); ok && lineField(list, n, field) != name {
				return
			}
		}
		typed := texts(v)
		form := &form{Values: v}
		form.addLine(compact(v))
		if got := texts(v); !slices.Equal(got, typed) {
			t.Fatalf("of %q is left %q", typed, got)
		}
		for name, values := range v {
			if list, n, _, ok := listed(name); ok && strings.TrimSpace(values[0]) != "" && n >= form.filled(list) && !strings.HasSuffix(name, "-beside") {
				t.Fatalf("%s is past the %d lines that are read", name, form.filled(list))
			}
		}
		before := maps.Clone(v)
		if compact(v); !maps.EqualFunc(before, v, slices.Equal) {
			t.Fatalf("moved again %v has become %v", before, v)
		}
	})
}

// texts returns the texts of a form, without ticks and blanks.
func texts(v url.Values) (all []string) {
	for name, values := range v {
		if !strings.HasSuffix(name, "-beside") && len(values) > 0 && strings.TrimSpace(values[0]) != "" {
			all = append(all, values[0])
		}
	}
	slices.Sort(all)
	return all
}

func TestAListHasAtMostSoManyLines(t *testing.T) {
	v := url.Values{}
	for n := range mostLines + 1 {
		v.Set(lineField("button", n, "text"), "a")
	}
	if got := (&form{Values: v}).filled("button"); got != mostLines {
		t.Errorf("%d lines are read, want %d", got, mostLines)
	}
}
