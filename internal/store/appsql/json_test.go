package appsql

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
)

// Servers of the previous version, in which kinds had no fields of their own, may share the database, and read and write such texts.
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
	sameMembers(t, written, text)
	if err := decodeSource(&s, `{"urls":["redis://sekret"`); err == nil || err.Error() != "app : settings of source  are damaged" {
		t.Errorf("a damaged text: %v", err)
	}
}

func sameMembers(t *testing.T, written, text string) {
	t.Helper()
	var got, want map[string]any
	for into, from := range map[*map[string]any]string{&got: written, &want: text} {
		if err := json.Unmarshal([]byte(from), into); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("wrote %s, want %s", written, text)
	}
}

func TestASinksTextIsThatOfTheVersionBefore(t *testing.T) {
	const text = `{"url":"https://c:8443","database":"godwit","user":"u","password":"sekret","keep":7776000000000000,"backfill":true,"from":4611686018427387911,"enabled":true,"private":true}`
	var s sink.Sink
	if err := decodeSink(&s, text); err != nil {
		t.Fatal(err)
	}
	if s.Values.Text("url") != "https://c:8443" || s.Values.Text("password") != "sekret" || s.Values.Duration("keep") != 90*24*time.Hour || len(s.Values) != 5 {
		t.Errorf("url %q, keep %s, %d values", s.Values.Text("url"), s.Values.Duration("keep"), len(s.Values))
	}
	if !s.Backfill || s.From != 1<<62+7 || !s.Enabled || !s.Private {
		t.Errorf("%+v", s)
	}
	written, err := encodeSink(&s)
	if err != nil {
		t.Fatal(err)
	}
	if sameMembers(t, written, text); !strings.Contains(written, `"keep":7776000000000000,`) || !strings.Contains(written, `"from":4611686018427387911,`) {
		t.Errorf("wrote %s: numbers have to stay as they are", written)
	}
	if err := decodeSink(&s, `{"url":"https://sekret"`); err == nil || err.Error() != "app : settings of sink  are damaged" {
		t.Errorf("a damaged text: %v", err)
	}
}
