package testbed

import (
	"strings"
	"testing"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/worker"
)

func TestMoreClientsThanMachinesHoldAreRefusedBeforeTheyConnect(t *testing.T) {
	site := &Site{bed: &Testbed{Run: &worker.Run{}, Machines: make([]worker.Machine, 2)}, Subs: []*Subscribers{{Count: 30_000}}}
	_, err := site.Connect(t.Context(), loadgen.SubscriberConfig{Count: 4001}, 1)
	if err == nil || !strings.Contains(err.Error(), "34001 clients need more than 2 machines") {
		t.Errorf("clients for three machines on two: %v", err)
	}
}
