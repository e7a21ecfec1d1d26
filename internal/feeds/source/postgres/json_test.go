package postgres

import (
	"encoding/json"
	"testing"
)

func TestValuesKeepTheirTypeAndDigits(t *testing.T) {
	for _, c := range []struct {
		kind       uint32
		text, want string
	}{
		{typeBool, "t", "true"},
		{typeInt8, "-9223372036854775808", "-9223372036854775808"},
		{typeNumeric, "1234567890.12345678901234567890", "1234567890.12345678901234567890"},
		{typeNumeric, "NaN", `"NaN"`},
		{typeFloat8, "-Infinity", `"-Infinity"`},
		{typeFloat8, "1e+20", "1e+20"},
		{typeJSONB, `{"a": [1, 2]}`, `{"a":[1,2]}`},
		{25, `a "b" <c>` + "\n", `"a \"b\" <c>\n"`},
		{25, "\xff", `"�"`},
		{1184, "2026-11-26 10:00:00+00", `"2026-11-26 10:00:00+00"`},
		{1007, "{1,NULL,3}", "[1,null,3]"},
		{1007, "{}", "[]"},
		{1009, `{a,"b, \"c\"","NULL",NULL,""}`, `["a","b, \"c\"","NULL",null,""]`},
		{1007, "{{1,2},{3,4}}", "[[1,2],[3,4]]"},
		{1007, "[0:1]={1,2}", "[1,2]"},
		{1009, "{a", `"{a"`},
		{1009, "{,}", `"{,}"`},
		{1009, "{a,}", `"{a,}"`},
		{99999, "{odd}", `"{odd}"`},
		{3807, `{"{\"a\": 1}"}`, `[{"a":1}]`},
	} {
		if got := string(appendJSON(nil, &column{kind: c.kind}, value{kind: isText, text: []byte(c.text)})); got != c.want {
			t.Errorf("%s of type %d: %s, want %s", c.text, c.kind, got, c.want)
		}
	}
	if got := string(appendJSON(nil, &column{kind: typeInt4}, value{kind: isNull})); got != "null" {
		t.Errorf("null is %s", got)
	}
}

func FuzzAppendJSON(f *testing.F) {
	for kind := range elements {
		f.Add(kind, []byte(`{1,"a\"b",NULL,{2}}`))
	}
	f.Fuzz(func(t *testing.T, kind uint32, text []byte) {
		if got := appendJSON(nil, &column{kind: kind}, value{kind: isText, text: text}); !json.Valid(got) {
			t.Errorf("%q of type %d is %q", text, kind, got)
		}
	})
}
