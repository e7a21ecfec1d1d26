package watch_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/watch"
)

func texts(records []watch.Record) string {
	var all []string
	for _, r := range records {
		line := fmt.Sprintf("%s %s ×%d", r.Kind, r.Text, r.Times)
		for _, d := range r.Details {
			line += " " + d.Name + "=" + d.Value
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func TestWarningsAreNotedByAppAndPassedOn(t *testing.T) {
	var passed strings.Builder
	w := watch.New()
	log := slog.New(w.Handler(slog.NewTextHandler(&passed, &slog.HandlerOptions{Level: slog.LevelError}))).With("node", "a")
	log.Info("nothing special", "app", "shop")
	log.Warn("hook paused", "app", "shop", "hook", "orders", "error", errors.New("answered 500"))
	log.Error("disk failed", "token", "gw_secret", "took", time.Second)
	log.WithGroup("push").Warn("slow", "app", "of the group")
	if got, want := texts(w.Log("shop", false)), "warning hook paused ×1 node=a hook=orders error=answered 500"; got != want {
		t.Errorf("noted of the app:\n%s\nwant\n%s", got, want)
	}
	server := texts(w.Log("", true))
	for _, want := range []string{"error disk failed ×1 node=a token=*** took=1s", "warning slow ×1 node=a push.app=of the group"} {
		if !strings.Contains(server, want) {
			t.Errorf("noted of the server:\n%s\nwithout %q", server, want)
		}
	}
	if strings.Contains(server, "gw_secret") || strings.Contains(server, "hook paused") {
		t.Errorf("noted of the server:\n%s", server)
	}
	if got := passed.String(); !strings.Contains(got, "disk failed") || strings.Contains(got, "hook paused") {
		t.Errorf("passed on:\n%s", got)
	}
}

func TestAnAppSeesItsOwnRecordsAlone(t *testing.T) {
	w := watch.New()
	w.Refuse("shop", "POST /v1/notifications", 400, "of shop")
	w.Refuse("other", "POST /v1/notifications", 400, "of other")
	w.Refuse("", "GET /v1/stats", 401, "of nobody")
	if got := texts(w.Log("shop", false)); got != "refused of shop ×1 route=POST /v1/notifications status=400" {
		t.Errorf("shop sees:\n%s", got)
	}
	if got := texts(w.Log("shop", true)); !strings.Contains(got, "of nobody") || strings.Contains(got, "of other") {
		t.Errorf("shop sees of the server:\n%s", got)
	}
}

func TestRecordsAreBoundedAndTheSameInARowAreOne(t *testing.T) {
	w := watch.New()
	for range 5 {
		w.Refuse("shop", "r", 429, "slower")
	}
	if got := texts(w.Log("shop", false)); !strings.HasPrefix(got, "refused slower ×5") || strings.Contains(got, "\n") {
		t.Errorf("noted:\n%s", got)
	}
	for i := range 1000 {
		w.Refuse("shop", "r", 400, fmt.Sprint("number ", i, strings.Repeat("x", 1000)))
	}
	all := w.Log("shop", true)
	if len(all) != 200 || !strings.HasPrefix(all[0].Text, "number 999") || len(all[0].Text) > 520 {
		t.Errorf("%d records, the newest %.20q of %d bytes", len(all), all[0].Text, len(all[0].Text))
	}
	for i := range 1000 {
		w.Refuse(fmt.Sprint("app-", i), "r", 400, "x")
	}
	if len(w.Log("app-999", false)) != 1 || len(w.Log("app-1", false)) != 0 {
		t.Error("apps are kept without an end, or the newest is not")
	}
}
