package attack

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// twoApps starts a server with apps "hostile" and "good" that have these settings.
func twoApps(t *testing.T, settings map[string][]string) *blackbox.Server {
	t.Helper()
	server := blackbox.New(t, blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	for _, app := range []string{"hostile", "good"} {
		for _, args := range [][]string{{"app", "create", app, "--data", server.Dir}, append([]string{"app", "set", app, "--data", server.Dir}, settings[app]...)} {
			if out, err := server.Manage(args...); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestAnAppWhoseServerHangsHoldsUpNoOther: one app's introspection URL never answers while hundreds of its clients connect.
func TestAnAppWhoseServerHangsHoldsUpNoOther(t *testing.T) {
	blackbox.Long(t)
	release := make(chan struct{})
	// Both apps use the same provider, which hangs for one of them.
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/good" {
			_, _ = w.Write([]byte(`{"active":true,"sub":"driver-1"}`))
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer provider.Close()
	defer close(release)
	server := twoApps(t, map[string][]string{
		"hostile": {"--introspect-url", provider.URL + "/hostile", "--allow-private-urls"},
		"good":    {"--introspect-url", provider.URL + "/good", "--allow-private-urls"},
	})
	token := server.Token(t, "good", "driver-1")
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	asked := 0
	welcome := func() time.Duration {
		begun, shown := time.Now(), token
		if asked++; asked%2 == 0 {
			shown = fmt.Sprint("opaque-", asked) // the provider must be asked
		}
		link, err := server.Dial(ctx, "ws", blackbox.Hello{App: "good", Recipient: "driver-1", Token: shown})
		if err != nil {
			t.Fatal(err)
		}
		defer link.Cut()
		if f, err := link.Next(ctx); err != nil || f.Welcome == nil {
			t.Fatalf("a client of the good app gets %+v, %+v, %v", f, f.Goodbye, err)
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
