package escalation

import (
	"context"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// twoSteps is a store of one copy with two steps. As soon as the second is stored, providers have accepted both. A check of the copy at
// that moment happens before the event.
type twoSteps struct {
	Store
	mailbox.Escalator
	s     *Service
	t     *testing.T
	fail  error
	told  []string
	sends []Send
}

func (w *twoSteps) StepsOf(context.Context, mailbox.Ref) ([]notification.Step, int, error) {
	return make([]notification.Step, 2), 2, nil
}

func (w *twoSteps) SendsOf(context.Context, string, string, string) ([]Send, error) {
	return w.sends, nil
}

func (w *twoSteps) Items(context.Context, []mailbox.Ref) ([]*mailbox.Item, error) {
	return []*mailbox.Item{{}}, nil
}

func (w *twoSteps) Emit(evs []event.Event) {
	for i := range evs {
		w.told = append(w.told, string(evs[i].Type))
	}
}

func (w *twoSteps) FinishSends(context.Context, Place, []dispatch.Result, time.Time) error {
	if w.fail != nil {
		return w.fail
	}
	w.sends[1].Outcome = dispatch.Accepted
	w.look()
	return nil
}

func (w *twoSteps) look() {
	if err := w.s.lookAt(w.t.Context(), copyOf{mailbox.Ref{App: "shop", Recipient: "ann", Pos: 1}, "n"}, w.sends); err != nil {
		w.t.Error(err)
	}
}

func TestAllIsSaidToHaveEndedAfterWhatTheLastStepCameTo(t *testing.T) {
	w := &twoSteps{t: t, sends: []Send{{ID: [16]byte{1}, Pos: 1, Step: 0, Outcome: dispatch.Accepted}, {ID: [16]byte{2}, Pos: 1, Step: 1, Outcome: dispatch.Sending}}}
	w.s = New(Config{Now: time.Now, Store: w, Steps: w, Events: w})
	of := newBacklog(w.s, Place{App: "shop", Channel: push.WebPush})
	results := []dispatch.Result{{Row: 7, Outcome: dispatch.Accepted}}
	for _, fail := range []error{context.DeadlineExceeded, nil} {
		of.known[7] = &Due{Delivery: dispatch.Delivery{Recipient: "ann"}, ID: [16]byte{2}, Note: "n", Pos: 1}
		w.fail = fail
		if err := of.Finish(t.Context(), results, time.Now()); err != fail { //nolint:errorlint // as it is
			t.Fatal(err)
		}
	}
	w.look()
	if want := []string{"step_accepted", "exhausted"}; !slices.Equal(w.told, want) {
		t.Errorf("told %q, want %q", w.told, want)
	}
}
