package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// revised are the kinds of an app's settings: where one is, and two bodies that set it up.
var revised = map[string]struct{ path, one, two string }{
	"category": {"/v1/categories/promo", `{"critical":true}`, `{"critical":false,"escalate_limit":"3/h"}`},
	"batch":    {"/v1/batches/north", `{"batch":"7s"}`, `{"batch":"8s"}`},
	"service":  {"/v1/gateway/orders", `{"access":"public"}`, `{"access":"client"}`},
	"segment":  {"/v1/segments/vip", `{"where":"vip = true"}`, `{"where":"vip = true and age >= 18","description":"Adults"}`},
	"channel":  {"/v1/channels/webpush", `{"subject":"mailto:a@example.org"}`, `{"subject":"mailto:b@example.org"}`},
	"hook":     {"/v1/hooks/billing", `{"url":"https://billing.example/a","enabled":false}`, `{"url":"https://billing.example/b","enabled":false}`},
	"sink":     {"/v1/sinks/clickhouse", `{"url":"https://ch.example:8443","enabled":false}`, `{"url":"https://ch.example:8444","enabled":false}`},
	"source":   {"/v1/sources/redisstream", `{"urls":["redis://a.example:6379"],"enabled":false}`, `{"urls":["redis://b.example:6379"],"enabled":false}`},
}

func TestOfTwoWhoChangeASettingTheLaterIsTold(t *testing.T) {
	for kind, c := range revised {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			at := func(method, body string, header ...string) answer {
				r := request{method: method, path: c.path, body: body, header: map[string]string{}}
				for i := 0; i < len(header); i += 2 {
					r.header[header[i]] = header[i+1]
				}
				return w.do(r)
			}
			tag := func(a answer) string {
				t.Helper()
				tag := a.header.Get("ETag")
				if len(tag) < 3 || !strings.Contains(a.body, `"revision":`+tag) {
					t.Errorf("the tag is %s in %s", tag, a.body)
				}
				return tag
			}
			stale := func(a answer, says string) {
				t.Helper()
				if p := a.problem(http.StatusPreconditionFailed, "revision-mismatch", ""); !strings.Contains(p.Detail, says) {
					t.Errorf("it says %q", p.Detail)
				}
			}
			stale(at("PUT", c.one, "If-Match", `"x"`), "does not exist")
			made := at("PUT", c.one, "If-None-Match", "*")
			if made.status != http.StatusCreated {
				made.want(http.StatusOK)
			}
			stale(at("PUT", c.one, "If-None-Match", "*"), "exists already")
			first := tag(made)
			if now := tag(at("GET", "").want(http.StatusOK)); now != first {
				t.Errorf("it is made as %s and read as %s", first, now)
			}
			if list := w.get(c.path[:strings.LastIndex(c.path, "/")]).body; !strings.Contains(list, `"revision":`+first) {
				t.Errorf("the list has another revision: %s", list)
			}
			second := tag(at("PUT", c.two, "If-Match", first).want(http.StatusOK))
			if second == first {
				t.Error("a change keeps the revision")
			}
			stale(at("PUT", c.one, "If-Match", first), "somebody has changed "+map[string]string{"batch": "the batching of group"}[kind])
			stale(at("DELETE", "", "If-Match", first), "meanwhile")
			if now := tag(at("GET", "")); now != second {
				t.Errorf("what was refused left %s", now)
			}
			tag(at("PUT", c.two, "If-Match", "*").want(http.StatusOK))
			for _, bad := range [][]string{{"If-Match", first[1:]}, {"If-Match", first + ", " + second}, {"If-None-Match", first}, {"If-Match", first, "If-None-Match", "*"}} {
				for _, method := range []string{"PUT", "DELETE"} {
					at(method, c.one, bad...).problem(http.StatusBadRequest, "bad-input", bad[len(bad)-2])
				}
			}
			at("DELETE", "", "If-Match", tag(at("GET", ""))).want(http.StatusNoContent)
		})
	}
}

func TestOfManyChangesOfOneRevisionOneIsMade(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"category", "hook", "sink", "source", "channel", "segment"} {
		c := revised[kind]
		tag := w.put(c.path, c.one).header.Get("ETag")
		status := make([]int, 8)
		var wg sync.WaitGroup
		for i := range status {
			wg.Go(func() {
				status[i] = w.do(request{method: "PUT", path: c.path, body: c.two, header: map[string]string{"If-Match": tag}}).status
			})
		}
		wg.Wait()
		if got := fmt.Sprint(status); strings.Count(got, "200") != 1 || strings.Count(got, "412") != 7 {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestAKeyIsDeletedByItsRevision(t *testing.T) {
	w := newWorld(t)
	made := decode[keyView](w.post("/v1/keys", `{"roles":["read"],"name":"x"}`).want(http.StatusCreated))
	at := "/v1/keys/" + made.ID
	tag := w.get(at).want(http.StatusOK).header.Get("ETag")
	drop := func(tag string) answer {
		return w.do(request{method: "DELETE", path: at, header: map[string]string{"If-Match": tag}})
	}
	drop(`"other"`).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	drop(tag).want(http.StatusNoContent)
	drop(tag).problem(http.StatusNotFound, "not-found", "")
	w.get(at).problem(http.StatusNotFound, "not-found", "")
}
