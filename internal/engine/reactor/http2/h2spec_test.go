package http2_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http2"
)

// TestConformance runs h2spec, the conformance suite of HTTP/2 and HPACK, against the engine.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, driver := range []string{reactor.DriverEpoll, reactor.DriverGoroutine} {
		t.Run(driver, func(t *testing.T) {
			s := serve(t, http2.Config{}, driver, &echo{})
			quiet(t)
			ap := netip.MustParseAddrPort(s.addr)
			ok, err := h2spec.Run(&config.Config{
				Host: ap.Addr().String(), Port: int(ap.Port()), Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				t.Error("h2spec found failures; run it with H2SPEC_VERBOSE=1 to see them")
			}
		})
	}
}

// quiet keeps h2spec's report on standard output out of the test's output.
func quiet(t *testing.T) {
	if os.Getenv("H2SPEC_VERBOSE") != "" {
		return
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := os.Stdout
	os.Stdout = null
	t.Cleanup(func() { os.Stdout = out; _ = null.Close() })
}
