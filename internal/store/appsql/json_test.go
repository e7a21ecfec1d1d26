package appsql

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
)

// Servers of the version before kinds had fields of their own may share the database, and read and write such texts.
func TestASourcesTextIsThatOfTheVersionBefore(t *testing.T) {
	const text = `{"urls":["redis://a:1","redis://b:2"],"password":"sekret","recipients":["ann"],"enabled":true,"private":true}`
	var s source.Source
	if err := decodeSource(&s, text); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Values.List("urls"), []string{"redis://a:1", "redis://b:2"}) || !slices.Equal(s.Values.List("recipients"), []string{"ann"}) || s.Values.Text("password") != "sekret" {
		t.Errorf("urls %q, recipients %q", s.Values.List("urls"), s.Values.List("recipients"))
	}
	if !s.Enabled || !s.Private || len(s.Values) != 3 {
		t.Errorf("enabled %t, private %t, %d values", s.Enabled, s.Private, len(s.Values))
	}
	written, err := encodeSource(&s)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	for into, from := range map[*map[string]any]string{&got: written, &want: text} {
		if err := json.Unmarshal([]byte(from), into); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("wrote %s, want %s", written, text)
	}
	if err := decodeSource(&s, `{"urls":["redis://sekret"`); err == nil || err.Error() != "app : settings of source  are damaged" {
		t.Errorf("a damaged text: %v", err)
	}
}
