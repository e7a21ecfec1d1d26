package webpage

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

// A person who leaves a form with what they have typed is asked first; one who has stored it, or typed nothing, is not.
func TestWhatIsTypedIsNotLeftWithoutAQuestion(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestOperatorsManageAppsInABrowser")
	s := newStage(t)
	var asked atomic.Int32
	chromedp.ListenTarget(s.ctx, func(ev any) {
		if dialog, ok := ev.(*page.EventJavascriptDialogOpening); ok && dialog.Type == page.DialogTypeBeforeunload {
			asked.Add(1)
		}
	})
	times := func(want int32, what string) {
		t.Helper()
		if got := asked.Load(); got != want {
			t.Fatalf("%s: asked %d times, want %d", what, got, want)
		}
	}
	s.signIn("dev")
	for i, form := range []struct{ path, field string }{
		{"/ui/campaigns/new", "#title"}, {"/ui/send", "#title"}, {"/ui/new/hooks", "#name"}, {"/ui/channels/webpush", "#subject"},
	} {
		s.opens(form.path)
		s.types(form.field, "Typed")
		s.opens("/ui/audience") // the dialog is accepted
		times(int32(i+1), form.path)
	}
	asked.Store(0)
	s.opens("/ui/campaigns/new")
	s.opens("/ui/audience")
	times(0, "nothing typed")
	s.opens("/ui/campaigns/new")
	s.types("#title", "Kept")
	s.clicks(`button[value="draft"]:not(.unseen)`)
	s.sees(`[data-state="draft"]`)
	times(0, "a draft is saved")
	s.opens("/ui/channels/webpush")
	s.rewrites("#subject", "mailto:a@example.org")
	s.clicks(`#settings button[value="save"]`)
	s.sees("p.done")
	s.opens("/ui/audience")
	times(0, "a channel is saved")
	s.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "n1", "to": "anna", "title": "Hi"})
	s.opens("/ui/categories")
	s.opens("/ui/new/categories")
	s.types("#name", "alarm")
	s.clicks("#settings button")
	s.sees("p.done")
	s.opens("/ui/audience")
	times(0, "a setting is saved")
}
