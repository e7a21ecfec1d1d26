package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"

	"github.com/coder/websocket"
)

// limit is the promised kilobyte plus an eighth: beside other tests a server's resident memory reads up to a tenth higher than on a quiet
// machine, where make idle checks the kilobyte.
const limit = "1152"

// TestIdleSessionsCostAKilobyte runs the committed measurement with 10,000 sessions on each transport.
func TestIdleSessionsCostAKilobyte(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	server := blackbox.Binary(t, false)
	blackbox.Build(t, "godwit-bench", "./cmd/godwit-bench", "build") // lies beside it
	for _, transport := range []string{"ws-json", "grpc"} {
		t.Run(transport, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, server, "bench", "idle", "--json", "--runs", "1", "--sessions", "10000",
				"--transports", transport, "--limit", limit, "--settle", "3m").Output()
			var result struct {
				Figures []struct {
					Name   string  `json:"name"`
					Median float64 `json:"median"`
				} `json:"figures"`
			}
			if jsonErr := json.Unmarshal(out, &result); jsonErr != nil || len(result.Figures) == 0 {
				t.Fatalf("measure: %v, %v\n%s", err, jsonErr, out)
			}
			f := result.Figures[0]
			if err != nil {
				t.Errorf("%s is %.0f bytes, at most %s are accepted here: %v", f.Name, f.Median, limit, err)
			}
			t.Logf("%s: %.0f bytes", f.Name, f.Median)
		})
	}
}

// TestAServerOfNobodyKeepsLittleAlive limits the live heap of a server without clients: each garbage collection scans it, and publishes
// wait for that.
func TestAServerOfNobodyKeepsLittleAlive(t *testing.T) {
	const most = 8 << 20 // it is 5 to 6 MB
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	api := server.API()
	if answer, err := api.Do(t.Context(), "GET", "/debug/pprof/heap", nil); err != nil || answer.Status != 200 { // collects first
		t.Fatalf("collect: %v, %v", answer, err)
	}
	alive, err := api.Metric(t.Context(), "go_memstats_heap_alloc_bytes")
	if err != nil {
		t.Fatal(err)
	}
	if alive == 0 || alive > most {
		t.Errorf("%.1f MB of the heap live in a server without clients, at most %d MB are right", alive/(1<<20), most>>20)
	}
	t.Logf("%.1f MB", alive/(1<<20))
}

// TestClientThatNeverReadsCostsAtMostItsCap: clients ask for large windows and then do not read, while 4 MB wait for each, more
// than all may cost together.
func TestClientThatNeverReadsCostsAtMostItsCap(t *testing.T) {
	blackbox.Long(t)
	clients := thorough.Rounds(10, 20)
	const (
		each     = 1000
		capBytes = 256 << 10
		slack    = 24 << 20 // allowance for the store's caches and the collector's headroom, which do not depend on the clients
	)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	ctx, cancel := context.WithTimeout(t.Context(), 2*blackbox.Patience)
	defer cancel()
	api := server.API()
	// The first publishes go to offline recipients, so that the first reading includes the cost of publishing itself.
	floodMailboxes(ctx, t, api, "away", clients, each)
	before := resident(t, server.PID())
	for i := range clients {
		deaf(ctx, t, server, fmt.Sprintf("deaf-%d", i))
	}
	floodMailboxes(ctx, t, api, "deaf", clients, each)
	healthy, err := server.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "healthy"})
	if err != nil {
		t.Fatal(err)
	}
	defer healthy.Cut()
	if err := api.Publish(ctx, map[string]any{"to": "healthy", "id": "h1", "title": "unhurt"}); err != nil {
		t.Fatal(err)
	}
	if n, err := blackbox.NextNotification(ctx, healthy); err != nil || n.ID != "h1" {
		t.Fatalf("a healthy client got %+v %v", n, err)
	}
	peak := resident(t, server.PID()) - before
	blackbox.Eventually(t, "memory within the caps", func() error {
		grown := resident(t, server.PID()) - before
		peak = max(peak, grown)
		if grown > clients*capBytes+slack {
			return fmt.Errorf("memory grew by %d KB; the caps allow %d KB", grown>>10, (clients*capBytes+slack)>>10)
		}
		return nil
	})
	t.Logf("memory grew by at most %d KB for %d clients that do not read", peak>>10, clients)
}

// floodMailboxes publishes notifications of 4 KB to each of several recipients, in batches.
func floodMailboxes(ctx context.Context, t *testing.T, api *blackbox.API, prefix string, recipients, each int) {
	t.Helper()
	for r := range recipients {
		var batch strings.Builder
		for i := range each {
			fmt.Fprintf(&batch, `{"to":"%s-%d","id":"%s-%d-%d","body":"%s"}`+"\n", prefix, r, prefix, r, i, strings.Repeat(strconv.Itoa(i%10), 4000))
		}
		answer, err := api.Do(ctx, "POST", "/v1/notifications/batch", []byte(batch.String()))
		if err != nil || answer.Status != 200 || strings.Contains(string(answer.Body), `"error"`) {
			t.Fatalf("batch: %v %.300v", err, answer)
		}
	}
}

// deaf sends a hello and never reads again.
func deaf(ctx context.Context, t *testing.T, server *blackbox.Server, recipient string) {
	t.Helper()
	conn, resp, err := websocket.Dial(ctx, "ws://"+server.HTTP+"/v1/connect", &websocket.DialOptions{
		Subprotocols: []string{"godwit.v1.json"}, HTTPClient: smallBuffers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	t.Cleanup(func() { conn.CloseNow() })
	hello := fmt.Sprintf(`{"hello":{"app":"demo","recipient":%q,"window":1024}}`, recipient)
	if err := conn.Write(ctx, websocket.MessageText, []byte(hello)); err != nil {
		t.Fatal(err)
	}
	if _, welcome, err := conn.Read(ctx); err != nil || !strings.Contains(string(welcome), "welcome") {
		t.Fatalf("%s %v", welcome, err)
	}
}

func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
