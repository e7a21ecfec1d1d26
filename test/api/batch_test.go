package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/test/blackbox"
)

// follow connects a client of a group, and returns its connection after all objects were confirmed.
func follow(t *testing.T, s *blackbox.Server, recipient, group string, objects ...string) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), "ws://"+s.HTTP+"/v1/connect", nil) // none on success
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	for _, frame := range []map[string]any{
		{"hello": map[string]any{"app": "demo", "recipient": recipient, "group": group}},
		{"register": map[string]any{"objects": objects}},
	} {
		b, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Write(t.Context(), websocket.MessageText, b); err != nil {
			t.Fatal(err)
		}
	}
	for range len(objects) {
		nextObject(t, ws)
	}
	return ws
}

// nextObject returns the next signal, as "object version".
func nextObject(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Object *struct{ Object, Version string }
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if f.Object != nil {
			return f.Object.Object + " " + f.Object.Version
		}
	}
}

// The interval is so long that a signal that waits for its end does not come within the test.
func TestGroupWithABatchingIntervalIsQuietUntilItsEnd(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	api := s.API()
	cli := func(args ...string) string {
		t.Helper()
		out, err := s.Run(append(args, "--url", "http://"+s.HTTP)...)
		if err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
		return out
	}
	cli("object", "batch", "set", "slow", "1h")
	cli("object", "batch", "set", "*", "0s")
	if out := cli("object", "batch", "list"); !strings.Contains(out, "slow") || !strings.Contains(out, "1h0m0s") {
		t.Errorf("listed is %s", out)
	}
	if out, err := s.Run("object", "batch", "set", "slow", "2h", "--url", "http://"+s.HTTP); err == nil || !strings.Contains(out, "batch") {
		t.Errorf("an interval of 2h: %v, %s", err, out)
	}
	put := func(group, object string) {
		t.Helper()
		api.Call(t, http.MethodPut, "/v1/objects/"+group+"/"+object, map[string]any{}, nil)
	}
	slow, quick := follow(t, s, "unit-1", "slow", "a", "b"), follow(t, s, "unit-2", "quick", "a")
	for range 3 {
		put("slow", "a")
		put("slow", "b")
	}
	put("quick", "a")
	if got := nextObject(t, quick); got != "a 1" {
		t.Errorf("the other group's client gets %s", got)
	}
	late := follow(t, s, "unit-3", "slow", "none") // the current version comes at once with a registration
	if err := late.Write(t.Context(), websocket.MessageText, []byte(`{"register":{"objects":["a"]}}`)); err != nil {
		t.Fatal(err)
	}
	if got := nextObject(t, late); got != "a 3" {
		t.Errorf("a client that registers gets %s", got)
	}
	// Without the interval the next change leaves at once, and what waited is no longer news.
	cli("object", "batch", "delete", "slow")
	api.Call(t, http.MethodPut, "/v1/objects/slow/c", map[string]any{}, nil)
	if err := slow.Write(t.Context(), websocket.MessageText, []byte(`{"register":{"objects":["c"]}}`)); err != nil {
		t.Fatal(err)
	}
	if got := nextObject(t, slow); got != "c 1" {
		t.Errorf("the first signal after the interval began is %s, want one of c: those of a and b wait", got)
	}
}
