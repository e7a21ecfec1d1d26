package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/httpapi/backend"
)

// TestBatchesThatNeverComeHoldUpNoOtherApp makes one app announce as many large batches as fit into memory.
func TestBatchesThatNeverComeHoldUpNoOtherApp(t *testing.T) {
	w := newWorld(t)
	addr := strings.TrimPrefix(w.srv.URL, "http://")
	announce := func() *bufio.Reader {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "POST /v1/notifications/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\n"+
			"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", w.keys["other"], backend.MaxBatchBytes)
		return bufio.NewReader(c)
	}
	answers := []*bufio.Reader{announce(), announce()}
	for _, r := range answers { // both have their memory
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
			t.Fatalf("answered %q, %v", line, err)
		}
	}
	announce() // these two find none
	announce()
	if a := w.ndjson(`{"to":"driver-1","title":"hi"}`); a.status != http.StatusOK {
		t.Errorf("another app's batch gets %d: %s", a.status, a.body)
	}
}
