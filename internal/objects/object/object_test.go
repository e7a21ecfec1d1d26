package object_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var fe *notification.FieldError
	if !errors.As(err, &fe) || fe.Field != field {
		t.Errorf("got %v, want a problem with %s", err, field)
	}
}

func TestVersionsAreReadAsStringsAndNumbers(t *testing.T) {
	for s, want := range map[string]object.Version{"1": 1, `"7"`: 7, "9223372036854775807": object.MaxVersion} {
		if v, err := object.ParseVersion(s); err != nil || v != want {
			t.Errorf("%s: %d, %v; want %d", s, v, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "1.0", "9223372036854775808", `"`, `""`, `"1`, "1e3", " 1"} {
		_, err := object.ParseVersion(s)
		wantField(t, err, "version")
	}
}

func TestDigestsAgreeWithTheVectors(t *testing.T) {
	text, err := os.ReadFile("../../../api/vectors/digests.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Digest  string
			Objects []object.Key
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		if got := object.DigestOf(c.Objects...).String(); got != c.Digest {
			t.Errorf("%v: %s, want %s", c.Objects, got, c.Digest)
		}
		if d, ok := object.ParseDigest(c.Digest); !ok || d.String() != c.Digest {
			t.Errorf("%s is read as %s, %t", c.Digest, d, ok)
		}
	}
	for _, s := range []string{"", "00000000000000FF", "000000000000000", "00000000000000000", "+000000000000000"} {
		if _, ok := object.ParseDigest(s); ok {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestVersionsOnlyGrow(t *testing.T) {
	known := object.State{Version: 7, Known: true, Payload: []byte("old"), UpdatedAt: now}
	unknown := object.State{Version: 7, UpdatedAt: now}
	last := object.State{Version: object.MaxVersion, Known: true, UpdatedAt: now}
	cases := map[string]struct {
		from    object.State
		put     object.Put
		version object.Version
		known   bool
		changed bool
	}{
		"first without a version":        {object.State{}, object.Put{}, 1, true, true},
		"next of a known one":            {known, object.Put{}, 8, true, true},
		"higher":                         {known, object.Put{Version: 100}, 100, true, true},
		"same":                           {known, object.Put{Version: 7}, 7, true, false},
		"lower":                          {known, object.Put{Version: 6}, 7, true, false},
		"unknown keeps the floor":        {known, object.Put{Unknown: true}, 7, false, true},
		"unknown with a higher floor":    {known, object.Put{Unknown: true, Version: 9}, 9, false, true},
		"unknown with a lower floor":     {known, object.Put{Unknown: true, Version: 2}, 7, false, true},
		"ordered unknown of a later one": {known, object.Put{Unknown: true, Ordered: true, Version: 6}, 7, true, false},
		"ordered unknown of this one":    {known, object.Put{Unknown: true, Ordered: true, Version: 7}, 7, true, false},
		"ordered unknown":                {known, object.Put{Unknown: true, Ordered: true, Version: 8}, 8, false, true},
		"unknown twice":                  {unknown, object.Put{Unknown: true}, 7, false, false},
		"unknown of what nobody put":     {object.State{}, object.Put{Unknown: true}, 0, false, true},
		"not above the floor":            {unknown, object.Put{Version: 7}, 7, false, false},
		"above the floor":                {unknown, object.Put{Version: 8}, 8, true, true},
		"next above the floor":           {unknown, object.Put{}, 8, true, true},
		"the last version may be put":    {known, object.Put{Version: object.MaxVersion}, object.MaxVersion, true, true},
		"nothing changes after the last": {last, object.Put{Version: object.MaxVersion}, object.MaxVersion, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			next, changed, err := c.from.Apply(&c.put, now.Add(time.Second))
			if err != nil || next.Version != c.version || next.Known != c.known || changed != c.changed {
				t.Fatalf("%+v, changed %t, %v", next, changed, err)
			}
			if changed && (!next.Newer(&c.from) && c.from.UpdatedAt != (time.Time{}) || c.from.Newer(&next)) {
				t.Error("the new state does not count as newer")
			}
			if !changed && string(next.Payload) != string(c.from.Payload) {
				t.Error("the stored payload did not stand")
			}
		})
	}
	_, _, err := last.Apply(&object.Put{}, now)
	wantField(t, err, "version")
}

func TestBadPutsNameTheirField(t *testing.T) {
	for field, p := range map[string]object.Put{
		"payload":      {Payload: make([]byte, object.MaxPayload+1)},
		"version":      {Version: -1},
		"content_type": {ContentType: "a\nb"},
		"source":       {Origin: object.Origin{Device: "d"}},
	} {
		wantField(t, p.Check(), field)
	}
	wantField(t, (&object.Put{Unknown: true, Payload: []byte("x")}).Check(), "payload")
	if err := (&object.Put{Payload: make([]byte, object.MaxPayload), Version: object.MaxVersion}).Check(); err != nil {
		t.Error(err)
	}
	wantField(t, object.Key{Object: "x"}.Check(), "group")
	wantField(t, object.Key{Group: "g", Object: "a b"}.Check(), "object")
}

func TestSourcesNameARecipientOrADevice(t *testing.T) {
	for text, want := range map[string]object.Origin{"": {}, "client-3": {Recipient: "client-3"}, "client-3/d": {Recipient: "client-3", Device: "d"}} {
		s, err := object.ParseOrigin(text)
		if err != nil || s != want || s.String() != text {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for _, bad := range []string{"a/", "/d", "a/b/c", "a b"} {
		_, err := object.ParseOrigin(bad)
		wantField(t, err, "source")
	}
	whole, one := object.Origin{Recipient: "r"}, object.Origin{Recipient: "r", Device: "d"}
	if !whole.Is("r", "x") || !whole.Is("r", "") || whole.Is("q", "x") || !one.Is("r", "d") || one.Is("r", "x") || one.Is("r", "") || (object.Origin{}).Is("", "") {
		t.Error("a source is not who it says")
	}
}

func TestPatternsAllowWhatTheySay(t *testing.T) {
	key := func(s string) object.Key {
		g, o, _ := strings.Cut(s, "/")
		return object.Key{Group: g, Object: o}
	}
	cases := []struct {
		pattern string
		yes, no []string
	}{
		{">", []string{"g/a", "g/a.b"}, nil},
		{"*", []string{"g/a"}, []string{"g/a.b"}},
		{"camera-*", []string{"g/camera-config", "g/camera-"}, []string{"g/camera", "g/camera-a.b", "g/x"}},
		{"fw.>", []string{"g/fw.1", "g/fw.1.2"}, []string{"g/fw", "g/fwx"}},
		{"fw.*.x", []string{"g/fw.1.x"}, []string{"g/fw.x", "g/fw.1.2.x"}},
		{"a*c*e", []string{"g/abcde", "g/ace"}, []string{"g/abcd", "g/ae"}},
		{"region-1/*", []string{"region-1/a"}, []string{"region-2/a"}},
		{"*/cfg", []string{"a/cfg", "b/cfg"}, []string{"a/other"}},
		{"exact", []string{"g/exact"}, []string{"g/exac", "g/exactly"}},
	}
	for _, c := range cases {
		for _, k := range c.yes {
			if !object.Allowed([]string{"no-such", c.pattern}, key(k)) {
				t.Errorf("%s does not allow %s", c.pattern, k)
			}
		}
		for _, k := range c.no {
			if object.Allowed([]string{c.pattern}, key(k)) {
				t.Errorf("%s allows %s", c.pattern, k)
			}
		}
	}
	if !object.Allowed(nil, key("g/a")) || object.Allowed([]string{}, key("g/a")) {
		t.Error("no list means all, an empty list nothing")
	}
}
