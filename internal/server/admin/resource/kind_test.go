package resource_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/server/admin/resource"
)

// own are the names that the form itself posts, and the ids of its page.
var own = []string{"name", "kind", "revision", "then", "enabled", "backfill", "settings", "main", "notice", "call", "secret", "made", "tested", "delete", "since", "replay", "standing"}

func TestNoFieldOfAKindHasANameOfTheFormItself(t *testing.T) {
	kinds := map[string]setting.Kind{"clickhouse": clickhouse.Kind{}, "jetstream": jetstream.Kind{}, "postgres": postgres.Kind{}, "redisstream": streams.Kind{}}
	for name, k := range outbox.Kinds(nil) {
		kinds[name] = k
	}
	for name, k := range kinds {
		for _, f := range k.Fields() {
			if slices.Contains(own, f.Name) || strings.HasPrefix(f.Name, resource.Remove("")) {
				t.Errorf("the field %s of %s has a name of the form", f.Name, name)
			}
		}
	}
}

func TestTheCallOfAFormHasNoSecret(t *testing.T) {
	inputs := []resource.Input{
		{Field: setting.Field{Name: "url"}},
		{Field: setting.Field{Name: "password", Secret: true}},
		{Field: setting.Field{Name: "keep", Type: setting.Days}},
		{Field: setting.Field{Name: "on", Type: setting.Bool}},
		{Field: setting.Field{Name: "subjects", Type: setting.List}},
	}
	values, wrong := resource.Read(inputs, url.Values{"url": {` https://a.example `}, "password": {"s3cret"}, "keep": {"2d"}, "subjects": {"a\r\n\r\n b "}})
	if len(wrong) != 0 || values.Text("password") != "s3cret" {
		t.Fatalf("%v", wrong)
	}
	const want = `PUT /v1/sinks/x
Authorization: Bearer KEY
If-Match: "r1"

{
  "url": "https://a.example",
  "keep": "2d",
  "on": false,
  "subjects": [
    "a",
    "b"
  ]
}`
	if got := resource.Call("PUT", "/v1/sinks/x", "r1", "", inputs, values); got != want {
		t.Errorf("the call is\n%s\nwant\n%s", got, want)
	}
}
