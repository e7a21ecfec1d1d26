package storetest

import (
	"slices"

	"godwit.dev/godwit/internal/campaigns/segment"
)

var segmentCases = map[string]func(e *appEnv){
	"ASegmentIsFoundByItsName":      segmentIsFound,
	"SegmentsComeInPagesByName":     segmentPages,
	"AnAppIsDeletedWithItsSegments": segmentsGoWithTheirApp,
}

func (e *appEnv) segment(app, name, where string) {
	e.Helper()
	e.ok(e.s.Segments.Update(e.Context(), app, name, func(one *segment.Segment, _ int) error {
		one.Where, one.CreatedAt, one.UpdatedAt = where, madeAt, changedAt
		return nil
	}))
}

func segmentIsFound(e *appEnv) {
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.segment(app, "vip", app+" = true")
	}
	e.segment("b", "old", "age > 60")
	for _, c := range []struct{ app, name, where string }{{"a", "vip", "a = true"}, {"b", "vip", "b = true"}, {"b", "old", "age > 60"}, {"a", "old", ""}, {"c", "vip", ""}} {
		one, err := e.s.Segments.Find(e.Context(), c.app, c.name)
		e.ok(err)
		if c.where == "" && one != nil || c.where != "" && (one == nil || one.App != c.app || one.Name != c.name || one.Where != c.where) {
			e.Errorf("%s of %s is %+v, want %q", c.name, c.app, one, c.where)
		}
	}
}

func segmentPages(e *appEnv) {
	e.app("shop")
	e.app("other")
	e.segment("other", "b", "x = 1")
	want := []string{"A", "a", "b", "z.1", "z:1"}
	for _, i := range []int{3, 0, 4, 2, 1} {
		e.segment("shop", want[i], "x = 1")
	}
	for _, size := range []int{1, 2, 5, 10} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := e.s.Segments.Page(e.Context(), "shop", after, size)
			e.ok(err)
			for _, one := range page {
				got = append(got, one.Name)
			}
			if len(page) < size {
				break
			}
		}
		if !slices.Equal(got, want) {
			e.Errorf("in pages of %d: %v", size, got)
		}
	}
}

func segmentsGoWithTheirApp(e *appEnv) {
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.segment(app, "vip", "x = 1")
	}
	e.ok(e.s.DeleteApp(e.Context(), "a", nil))
	if list, err := e.s.Segments.All(e.Context()); err != nil || len(list) != 1 || list[0].App != "b" {
		e.Errorf("after a is deleted there are %+v, %v", list, err)
	}
}
