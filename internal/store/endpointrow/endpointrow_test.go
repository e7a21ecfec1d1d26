package endpointrow

import (
	"errors"
	"maps"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
)

func TestTagsAndAttributesComeBack(t *testing.T) {
	for _, e := range []audience.Endpoint{
		{},
		{Tags: []string{"a", "b"}, Attributes: audience.Attributes{"age": audience.Number(3), "city": audience.Text("Oslo")}},
	} {
		tags, attributes, err := JSON(&e)
		if err != nil {
			t.Fatal(err)
		}
		var got audience.Endpoint
		if err := ReadJSON(&got, tags, attributes); err != nil || len(got.Tags) != len(e.Tags) || !maps.Equal(got.Attributes, e.Attributes) {
			t.Errorf("%+v comes back as %+v, %v", e, got, err)
		}
	}
	if err := ReadJSON(&audience.Endpoint{}, "[", "{}"); err == nil {
		t.Error("a damaged row is read")
	}
}

func TestADisabledEndpointHasNoEntries(t *testing.T) {
	e := audience.Endpoint{Tags: []string{"a"}, Attributes: audience.Attributes{"age": audience.Number(3), "city": audience.Text("Oslo")}, Status: audience.Disabled}
	numbers := func(table *Names, name string) (int64, error) { return int64(len(table.Table) + len(name)), nil }
	if all, err := Entries(&e, numbers); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	e.Status = audience.Active
	want := map[Entry]bool{{Table: Tag, Name: 9}: true, {Table: Number, Name: 17, Num: 3}: true, {Table: Text, Name: 18, Text: "Oslo"}: true}
	if all, err := Entries(&e, numbers); err != nil || !maps.Equal(all, want) {
		t.Errorf("%v, %v, want %v", all, err, want)
	}
	failed := errors.New("failed")
	if _, err := Entries(&e, func(*Names, string) (int64, error) { return 0, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
