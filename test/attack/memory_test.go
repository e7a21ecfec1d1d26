package attack

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestBatchesKeepToTheMemoryLimit lets an app send large batches, as many at once as it likes.
func TestBatchesKeepToTheMemoryLimit(t *testing.T) {
	blackbox.Long(t)
	const limit, most, parallel = 256, 320, 8 // MB; the limit is soft and does not include SQLite's pages
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--memory-limit", fmt.Sprintf("%dMB", limit)))
	title := strings.Repeat("x", 100<<10)
	var body bytes.Buffer
	for i := 0; body.Len() < 27<<20; i++ {
		fmt.Fprintf(&body, `{"to":"driver-%d","title":"large","body":%q,"ttl":"1h"}`+"\n", i%50, title[:3000])
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for range parallel {
		wg.Go(func() {
			answer, err := server.API().Do(t.Context(), http.MethodPost, "/v1/notifications/batch", body.Bytes())
			if err != nil || answer.Status != http.StatusOK && answer.Status != http.StatusServiceUnavailable {
				t.Errorf("a batch gets %+v, %v", answer, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if answer.Status == http.StatusOK {
				served++
			}
		})
	}
	wg.Wait()
	if server.Exited() || served == 0 {
		t.Fatalf("the server has ended: %t; %d batches were served", server.Exited(), served)
	}
	if peak := peakMemory(t, server.PID()); peak > most {
		t.Errorf("it took %d MB under a limit of %d MB", peak, limit)
	} else {
		t.Logf("%d of %d batches of 27 MB served; at most %d MB resident", served, parallel, peak)
	}
}

// peakMemory returns the largest resident memory that a process has had, in MB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		blackbox.Skip(t, "no /proc: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
