package call

import (
	"encoding/json"
	"errors"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

func TestFieldsNameWhatIsWrong(t *testing.T) {
	type inner struct {
		Title string `json:"title"`
		Links []int  `json:"links"`
		Part  int    `json:"part"`
		Deep  struct {
			Rows [][]struct {
				Text string `json:"text"`
			} `json:"rows"`
		} `json:"deep"`
	}
	for body, want := range map[string]string{
		``:                             "bad-json: unexpected end of JSON input, at byte 0",
		`[]`:                           "bad-json: found a list where an object is needed",
		`{"name":"a"`:                  "bad-json: unexpected end of JSON input, at byte 11",
		`{"name":"a"} x`:               "bad-json: invalid character 'x' after top-level value, at byte 14",
		`{"name":"a",}`:                "bad-json: invalid character '}' looking for beginning of object key string, at byte 13",
		"{\"name\":\"\xff\"}":          "bad-json: the body is not valid UTF-8",
		`{"name":nope}`:                "name: is not valid JSON: invalid character 'o' in literal null (expecting 'u')",
		`{"other":1}`:                  "other: is not a known field",
		`{"Name":"a"}`:                 "Name: is not a known field",
		`{"name":"a","name":"b"}`:      "name: is given twice",
		`{"name":null}`:                "name: must be a string, not null",
		`{"name":1}`:                   "name: must be a string, not a number",
		`{"on":"yes"}`:                 "on: must be true or false, not a string",
		`{"list":"a"}`:                 "list: must be a list of strings, not a string",
		`{"list":["a",{}]}`:            "list[1]: must be a string, not an object",
		`{"list":["a b"]}`:             "list[0]: is empty or contains a space",
		`{"list":["a","b","c"]}`:       "list: has more than 2 members",
		`{"inner":[]}`:                 "inner: must be an object, not a list",
		`{"inner":{"title":1}}`:        "inner.title: must not be a number",
		`{"inner":{"links":["a"]}}`:    "inner.links: must not be a string",
		`{"inner":{"title":[]}}`:       "inner.title: must not be an array",
		`{"inner":{"part":33.3}}`:      "inner.part: must be a whole number that is not too large, not 33.3",
		`{"inner":{"part":1e30}}`:      "inner.part: must be a whole number that is not too large, not 1e30",
		`{"count":1.5}`:                "count: must be a whole number that is not too large, not 1.5",
		`{"count":"x"}`:                "count: must be a number, not a string",
		`{"inner":{"title":"","x":1}}`: "inner.x: is not a known field",
		`{"inner":{"deep":{"x":1}}}`:   "inner.deep.x: is not a known field",
		`{"inner":{"deep":{"rows":[[{"text":"a"}],[{"x":1}]]}}}`: "inner.deep.rows[1][0].x: is not a known field",
		`{"text":"bad"}`:               "text: is bad",
		` { "name" : "a" , "list":[]}`: "",
	} {
		var name string
		var on *bool
		var list []string
		var in inner
		var count int
		err := Fields{
			"name": &name, "on": &on, "list": Texts(&list, 2, Word), "inner": &in, "count": &count,
			"text": Text(func(field, s string) error { return notification.BadField(field, "is %s", s) }),
		}.Decode([]byte(body))
		if got := told(err); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// told returns the answer that a client gets for an error.
func told(err error) string {
	var bad *notification.FieldError
	if errors.As(err, &bad) || err == nil {
		if err == nil {
			return ""
		}
		return bad.Error()
	}
	p := problem.From(err)
	return p.Type[len("/problems/"):] + ": " + p.Detail
}

func TestFieldsAreReadInTheirOrderAndNullIsNone(t *testing.T) {
	var seen []string
	note := Reader(func(field string, raw json.RawMessage) error {
		seen = append(seen, field+"="+string(raw))
		return nil
	})
	name := "as it was"
	if err := (Fields{"a": note, "b": note, "c": note, "name": &name}).DecodeOrNull([]byte(`{"b":1,"c":null,"name":null,"a":[ 2 ]}`)); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] != "b=1" || seen[1] != "a=[ 2 ]" || name != "as it was" {
		t.Errorf("read %q, name %q", seen, name)
	}
}
