package httpapi_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/httpapi/direct"
)

// twins returns an API that net/http serves alone, and one that hands publishers over.
func twins(t testing.TB) (alone, handing *world, d *direct.Server) {
	handing, d = directly(t)
	return newWorld(t), handing, d
}

// TestPublishesAreAnsweredAlikeByBothServers sends correct requests, wrong ones, and ones that have deceived other servers.
func TestPublishesAreAnsweredAlikeByBothServers(t *testing.T) {
	alone, handing, d := twins(t)
	for name, raw := range rawCases {
		t.Run(name, func(t *testing.T) {
			want := alone.uncanceled(raw(alone))
			if got := handing.answers(raw(handing)); got != want {
				t.Errorf("net/http alone answers\n%s\nhanding over\n%s", want, got)
			}
		})
	}
	if s := d.Stats(); s.Exchanges < 20 || s.Returned < 20 {
		t.Errorf("only %d publishes were answered off net/http, and %d connections went back", s.Exchanges, s.Returned)
	}
}

// rawCases holds the bytes sent after a first publish.
var rawCases = func() map[string]func(*world) string {
	publish := func(body string, headers ...string) func(*world) string {
		return func(w *world) string { return post(w.key, body, headers...) }
	}
	cases := map[string]func(*world) string{
		"one":         publish(`{"to":"a","title":"Hi"}`),
		"a list":      publish(`{"to":["a","b"],"data":{"x":1}}`),
		"a long list": publish(`{"to":["` + strings.Join(slices.Repeat([]string{"someone"}, 200), `","`) + `"]}`),
		"a duplicate": func(w *world) string { return strings.Repeat(post(w.key, `{"to":"a","id":"d","title":"Hi"}`), 2) },
		"a conflict": func(w *world) string {
			return post(w.key, `{"to":"a","id":"c","title":"Hi"}`) + post(w.key, `{"to":"a","id":"c","title":"x"}`)
		},
		"an idempotency key": func(w *world) string {
			return strings.Repeat(post(w.key, `{"to":"a","title":"Hi"}`, "Idempotency-Key: k"), 2)
		},
		"a long idempotency key":   publish(`{"to":"a","title":"Hi"}`, "Idempotency-Key: "+strings.Repeat("k", 256)),
		"two idempotency keys":     publish(`{"to":"a","title":"Hi"}`, "Idempotency-Key: k", "Idempotency-Key: l"),
		"an empty idempotency key": publish(`{"to":"a","title":"Hi"}`, "Idempotency-Key: "),
		"an empty body":            publish(``),
		"no JSON":                  publish(`{`),
		"an unknown field":         publish(`{"to":"a","x":1}`),
		"a bad name":               publish(`{"to":"a b","title":"Hi"}`),
		"no recipient":             publish(`{}`),
		"a template":               publish(`{"to":"a","template":"none"}`),
		"a step":                   publish(`{"to":"a","title":"Hi","escalate":[{"channel":"live"},{"channel":"fcm","after":"5s"}]}`),
		"bad UTF-8":                publish("{\"to\":\"\xff\",\"title\":\"Hi\"}"),
		"another key": func(w *world) string {
			return post(w.keys["other"], `{"to":"a","title":"Hi"}`) + post(w.key, `{"to":"a","title":"Hi"}`)
		},
		"a key that may not": func(w *world) string {
			return post(w.keys["read"], `{"to":"a","title":"Hi"}`) + post(w.key, `{"to":"a","title":"Hi"}`)
		},
		"a wrong key": func(w *world) string {
			return post("wrong", `{"to":"a","title":"Hi"}`) + post(w.key, `{"to":"a","title":"Hi"}`)
		},
		"no key": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "Authorization: Bearer", "X: ", 1)
		},
		"another scheme": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "Bearer", "Basic", 1)
		},
		"a scheme in capitals": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "Bearer", "BEARER", 1)
		},
		"the most that fits": publish(`{"to":"a","data":"` + strings.Repeat("x", 200_000) + `"}`),
		"as long as allowed": publish(`{"to":"a","title":"Hi"}` + strings.Repeat(" ", 256<<10-23)),
		"a byte too long":    publish(`{"to":"a","title":"Hi"}` + strings.Repeat(" ", 256<<10-22)),
		"many ahead":         func(w *world) string { return strings.Repeat(post(w.key, `{"to":"a","title":"Hi"}`), 300) },
		"another host": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "Host: x", "Host: y", 1)
		},
		"then a read": func(w *world) string {
			return post(w.key, `{"to":"a","id":"r","title":"Hi"}`) + "GET /v1/notifications/r?to=a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key + "\r\n\r\n" + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"then a batch": func(w *world) string {
			return strings.Replace(post(w.key, "{\"to\":\"a\",\"title\":\"Hi\"}\n{\"to\":\"b\",\"title\":\"Hi\"}\n"), "notifications", "notifications/batch", 1) + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"then notify": func(w *world) string {
			return strings.Replace(post(w.key, "text"), "notifications", "notify/a", 1) + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"then nothing there": func(w *world) string {
			return "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"an app": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "notifications", "notifications?app=other", 1)
		},
		"another method": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "POST", "PUT", 1)
		},
		"a tidy path": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "/v1/", "/v1//", 1)
		},
		"chunks": func(w *world) string {
			return chunked(w.key, "5\r\n{\"to\"\r\n12\r\n:\"a\",\"title\":\"Hi\"}\r\n0\r\n\r\n") + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"chunks with a trailer": func(w *world) string {
			return chunked(w.key, "17\r\n{\"to\":\"a\",\"title\":\"Hi\"}\r\n0\r\nX: y\r\n\r\n")
		},
		"a bad chunk": func(w *world) string { return chunked(w.key, "z\r\n{\"to\":\"a\",\"title\":\"Hi\"}\r\n0\r\n\r\n") },
		"a chunk too large": func(w *world) string {
			return chunked(w.key, "fffffffffffffffff\r\n{\"to\":\"a\",\"title\":\"Hi\"}\r\n0\r\n\r\n")
		},
		"a chunk of line feeds": func(w *world) string { return chunked(w.key, "17\n{\"to\":\"a\",\"title\":\"Hi\"}\n0\n\n") },
		"an expectation":        publish(`{"to":"a","title":"Hi"}`, "Expect: 100-continue"),
		"an odd expectation":    publish(`{"to":"a","title":"Hi"}`, "Expect: more"),
		"a close": func(w *world) string {
			return post(w.key, `{"to":"a","title":"Hi"}`, "Connection: close") + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"kept alive": func(w *world) string {
			return post(w.key, `{"to":"a","title":"Hi"}`, "Connection: keep-alive") + post(w.key, `{"to":"b","title":"Hi"}`)
		},
		"HTTP/1.0": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "HTTP/1.1", "HTTP/1.0", 1)
		},
		"HTTP/1.0 kept alive": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1)
		},
		"an upgrade":          publish(`{"to":"a","title":"Hi"}`, "Connection: Upgrade", "Upgrade: h2c"),
		"an encoding":         publish(`{"to":"a","title":"Hi"}`, "Content-Encoding: gzip"),
		"an empty line first": func(w *world) string { return "\r\n" + post(w.key, `{"to":"a","title":"Hi"}`) },
		"rubbish":             func(*world) string { return "rubbish\r\n\r\n" },
		"half a line":         func(*world) string { return "POST /v1/noti" },
		"half a head":         func(w *world) string { return post(w.key, `{"to":"a","title":"Hi"}`)[:60] },
		"half a body":         func(w *world) string { p := post(w.key, `{"to":"a","title":"Hi"}`); return p[:len(p)-5] },
		"one and half a body": func(w *world) string { p := post(w.key, `{"to":"a","title":"Hi"}`); return p + p[:len(p)-5] },
		"nothing":             func(*world) string { return "" },
		"huge headers":        publish(`{"to":"a","title":"Hi"}`, "X: "+strings.Repeat("x", 30<<10)),
		"large headers":       publish(`{"to":"a","title":"Hi"}`, "X: "+strings.Repeat("x", 8<<10)),
	}
	for name, header := range map[string]string{
		"two lengths": "Content-Length: 3", "two equal lengths": "Content-Length: 23", "a length and chunks": "Transfer-Encoding: chunked",
		"a length and odd chunks": "Transfer-Encoding: xchunked", "chunks twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"a space before the colon": "Transfer-Encoding : chunked", "a folded header": "X: a\r\n b", "a bare line feed": "X: a\nTransfer-Encoding: chunked",
		"a bare carriage return": "X: a\rb", "a null byte": "X: a\x00b", "two hosts": "Host: y", "a name with a space": "X Y: a", "no colon": "X", "no name": ": a",
		"a trailer": "Trailer: X", "odd bytes": "X: \x80\xff",
	} {
		cases[name] = func(w *world) string {
			return post(w.key, `{"to":"a","title":"Hi"}`, header) + post(w.key, `{"to":"b","title":"Hi"}`)
		}
	}
	for name, length := range map[string]string{"a sign": "+23", "a minus": "-23", "hexadecimals": "0x17", "a list": "23, 23", "an inner space": "2 3", "nothing": "", "zeros": "00023", "too much": "99999999999999999999"} {
		cases["a length with "+name] = func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a","title":"Hi"}`), "Content-Length: 23", "Content-Length: "+length, 1) + post(w.key, `{"to":"b","title":"Hi"}`)
		}
	}
	return cases
}()

func chunked(key, chunks string) string {
	return "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
}

// FuzzBothServers sends the same bytes to both servers, which must answer the same. KEY in the bytes stands for a key.
func FuzzBothServers(f *testing.F) {
	for _, raw := range rawCases {
		f.Add([]byte(raw(&world{key: "KEY", keys: map[string]string{"other": "KEY", "read": "KEY"}})))
	}
	one, two, _ := twins(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		alone, handing := *one, *two
		alone.t, handing.t = t, t
		if len(raw) > 64<<10 || bytes.Contains(raw, []byte("/v1/events")) {
			t.Skip("takes too long")
		}
		with := func(w *world) string { return strings.ReplaceAll(string(raw), "KEY", w.key) }
		want := alone.uncanceled(with(&alone))
		if got := handing.answers(with(&handing)); got != want {
			t.Errorf("%q: net/http alone answers\n%s\nhanding over\n%s", raw, want, got)
		}
	})
}
