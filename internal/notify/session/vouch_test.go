package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

// vouching is a transport that says itself who its client is.
type vouching struct {
	*wire

	as  access.Client
	err error
}

func (v *vouching) Vouch(context.Context) (access.Client, error) { return v.as, v.err }

func TestTransportThatVouchesNeedsNoCredential(t *testing.T) {
	inHangingWorld(t, func(w *world, v *hanging) {
		connect := func(c access.Client, err error) *wire {
			t := &vouching{wire: &wire{}, as: c, err: err}
			t.s = w.hub.Accept(t, Peer{})
			t.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "hostile"}})
			synctest.Wait()
			return t.wire
		}
		w.expect(connect(access.Client{App: "~push", Recipient: "device"}, nil), "welcome")
		if v.asked.Load() != 0 {
			t.Error("the app's server was asked")
		}
		if live, _ := w.hub.Online(t.Context(), "~push", "device"); len(live) != 1 {
			t.Errorf("%d sessions of the device, want one", len(live))
		}
		w.expect(connect(access.Client{}, fmt.Errorf("%w: no database", access.ErrUnavailable)), "goodbye auth_unavailable")
		w.expect(connect(access.Client{}, errors.New("a fault")), "goodbye auth_unavailable")
	})
}
