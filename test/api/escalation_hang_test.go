package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestAHostThatHangsHoldsNoOtherHostsStep sends 600 steps to a host that accepts requests and never answers. A step for another host must
// arrive before most of the 600 were even sent.
func TestAHostThatHangsHoldsNoOtherHostsStep(t *testing.T) {
	blackbox.Long(t)
	const hanging, others = 600, 20
	w, r := begin(t), receive(t)
	var asked atomic.Int64
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		select {
		case <-q.Context().Done(): // the server has given up
		case <-release:
		}
	}))
	t.Cleanup(func() { close(release); hung.Close() })
	for i := range hanging {
		to := fmt.Sprint("h", i)
		w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "recipient": to, "address": map[string]string{"url": hung.URL + "/" + to}})
	}
	for i := range others {
		w.reach(fmt.Sprint("o", i), r)
	}
	for i := range hanging {
		w.publish("hung", fmt.Sprint("h", i), "23h")
	}
	blackbox.Eventually(t, "the host that hangs is asked", func() error {
		if asked.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for i := range others {
		w.publish(fmt.Sprint("fine", i), fmt.Sprint("o", i), "23h")
	}
	for i := range others {
		r.wait(t, message, fmt.Sprint("fine", i))
	}
	if n := asked.Load(); n >= hanging/2 {
		t.Errorf("the host that hangs was asked %d times of %d: the others came after most of them", n, hanging)
	}
}
