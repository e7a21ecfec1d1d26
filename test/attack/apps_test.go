package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// twoApps starts a server with apps "hostile", with these settings, and "good", and returns their keys.
func twoApps(t *testing.T, settings ...string) (server *blackbox.Server, hostile, good string) {
	t.Helper()
	server = blackbox.New(t, blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	keys := map[string]string{}
	for _, app := range []string{"hostile", "good"} {
		out, err := server.Run("app", "create", app, "--data", server.Dir, "--json")
		var made struct{ Key string }
		if err == nil {
			err = json.Unmarshal([]byte(out), &made)
		}
		if err != nil || made.Key == "" {
			t.Fatalf("create app: %v\n%s", err, out)
		}
		keys[app] = made.Key
	}
	if len(settings) > 0 {
		if out, err := server.Run(append([]string{"app", "set", "hostile", "--data", server.Dir}, settings...)...); err != nil {
			t.Fatalf("set app: %v\n%s", err, out)
		}
	}
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	return server, keys["hostile"], keys["good"]
}

// TestAnAppWhoseServerHangsHoldsUpNoOther: one app's introspection URL never answers while hundreds of its clients connect.
func TestAnAppWhoseServerHangsHoldsUpNoOther(t *testing.T) {
	blackbox.Long(t)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hanging.Close()
	defer close(release)
	server, _, _ := twoApps(t, "--introspect-url", hanging.URL, "--allow-private-urls")
	token, err := server.Run("token", "--app", "good", "--recipient", "driver-1", "--data", server.Dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	welcome := func() time.Duration {
		begun := time.Now()
		link, err := server.Dial(ctx, "ws", blackbox.Hello{App: "good", Recipient: "driver-1", Token: strings.TrimSpace(token)})
		if err != nil {
			t.Fatal(err)
		}
		defer link.Cut()
		if f, err := link.Next(ctx); err != nil || f.Welcome == nil {
			t.Fatalf("a client of the good app gets %+v, %v", f, err)
		}
		return time.Since(begun)
	}
	alone := welcome()
	const clients = 300
	var wg sync.WaitGroup
	var mu sync.Mutex
	reasons := map[string]int{}
	connected := make(chan struct{}, clients)
	for i := range clients {
		wg.Go(func() {
			link, err := server.Dial(ctx, "ws", blackbox.Hello{App: "hostile", Recipient: "r", Token: fmt.Sprint("opaque-", i)})
			connected <- struct{}{}
			reason := fmt.Sprint(err)
			if err == nil {
				defer link.Cut()
				if f, err := link.Next(ctx); err == nil && f.Goodbye != nil {
					reason = f.Goodbye.Reason
				}
			}
			mu.Lock()
			reasons[reason]++
			mu.Unlock()
		})
	}
	for range clients {
		<-connected
	}
	var beside []time.Duration
	for range 20 {
		beside = append(beside, welcome())
	}
	mu.Lock()
	if n := reasons["auth_unavailable"]; n > clients/2 {
		t.Errorf("%d of the hostile app's clients had their answer before the good app's client was welcomed: it waited for them", n)
	}
	mu.Unlock()
	t.Logf("a welcome took %s alone, %s beside", alone, beside)
	wg.Wait()
	if reasons["auth_unavailable"] != clients {
		t.Errorf("the hostile app's clients were told %v", reasons)
	}
}
