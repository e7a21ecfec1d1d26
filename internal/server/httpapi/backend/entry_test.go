package backend_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/httpapi/backend"
)

func TestEntriesOfSourcesAreReadByTheirMembers(t *testing.T) {
	for body, want := range map[string]string{
		`{"to":"ann","title":"A \"put\" option"}`:                                            "publish ann",
		`{"to":["ann","bob"],"id":"n"}`:                                                      "publish ann bob",
		` [{"to":"ann"},{"put":{"group":"g","object":"o","version":"7","payload":{"a":1}}}]`: `publish ann, put g/o 7 {"a":1}`,
		`{"put":{"group":"g","object":"o"}}`:                                                 "put g/o 0 ",
		`{"put":{"group":"g","object":"o","unknown":true}}`:                                  "put g/o unknown",
		`{"delete":{"group":"g","object":"o"}}`:                                              "delete g/o",
		`{"topic":"rides.x","data":{"a":[1]}}`:                                               `topic rides.x application/json {"a":[1]}`,
		`{"data":"hi","content_type":"text/plain","topic":"rides.x"}`:                        "topic rides.x text/plain hi",
		`{"to":"ann","data":{"topic":"x"}}`:                                                  "publish ann",
		`[]`:                                                                                 "",
		``:                                                                                   "error",
		`7`:                                                                                  "error",
		`{"to":"ann"`:                                                                        "error",
		`{"put":{"group":"g"}}`:                                                              "error object",
		`{"put":{"group":"g","object":"o","color":1}}`:                                       "error color",
		`{"put":{"group":"g","object":"o"},"to":"ann"}`:                                      `error to: cannot stand beside put: several changes in one message are a list, like [{"put":…},{"to":…}]`,
		`{"delete":{"group":"g","object":"o"},"put":{"group":"g","object":"o"}}`:    "error delete: cannot stand beside put",
		`{"topic":"rides","data":1,"delete":{"group":"g","object":"o"}}`:            "error topic: cannot stand beside delete",
		`{"topic":"rides.*","data":1}`:                                              "error topic",
		`{"to":"ann","sendto":"x"}`:                                                 "error sendto",
		`[{"to":"ann"},{"to":"ann","sendto":"x"}]`:                                  "error [1]: sendto",
		`[` + strings.Repeat(`{"to":"ann"},`, backend.MaxEntries) + `{"to":"ann"}]`: "error 1001",
		"{\"topic\":\"a\",\"data\":\"\xff\"}":                                       "error",
	} {
		got, err := backend.ReadEntries([]byte(body))
		var said []string
		for _, e := range got {
			switch {
			case err != nil:
			case e.Publish != nil:
				said = append(said, "publish "+strings.Join(e.Publish.To, " "))
			case e.Put != nil && e.Put.Unknown:
				said = append(said, "put "+e.Put.Key.String()+" unknown")
			case e.Put != nil:
				said = append(said, "put "+e.Put.Key.String()+" "+e.Put.Version.String()+" "+string(e.Put.Payload))
			case e.Delete != nil:
				said = append(said, "delete "+e.Delete.String())
			case e.Message != nil:
				said = append(said, "topic "+e.Message.Topic+" "+e.Message.ContentType+" "+string(e.Message.Data))
			}
		}
		short := body[:min(len(body), 80)]
		if names, bad := strings.CutPrefix(want, "error"); bad {
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(names)) {
				t.Errorf("%s: %v, want an error with %q", short, err, names)
			}
			continue
		}
		if all := strings.Join(said, ", "); err != nil || all != want {
			t.Errorf("%s: %q, %v; want %q", short, all, err, want)
		}
	}
}
