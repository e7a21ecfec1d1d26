package figures

import (
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/server/watch"
)

// text is the only warning about what stopped to work; empty: there is none.
func text(t *testing.T, s watch.State) string {
	t.Helper()
	switch list := s.Advise(time.Now()); len(list) {
	case 0:
		return ""
	case 1:
		return list[0].Text()
	default:
		t.Fatalf("%+v", list)
		return ""
	}
}

func TestOnlyWhatStoppedUnaskedIsWarnedOf(t *testing.T) {
	at := time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC)
	for state, want := range map[hook.State]string{
		hook.Active: "", hook.Disabled: "", hook.Failing: "The hook crm is failing since 1 May 2026, 11:00 UTC: answered 500.", hook.Paused: "The hook crm is paused since 1 May 2026, 12:00 UTC: answered 410.",
	} {
		one := hook.Info{Hook: hook.Hook{Name: "crm"}, State: state, Progress: hook.Progress{LastError: "answered 500", Failing: at, Paused: "answered 410", PausedAt: at.Add(time.Hour)}}
		if got := text(t, watch.State{Hooks: troubled([]hook.Info{one}, ofHook)}); got != want {
			t.Errorf("a hook that is %s: %q", state, got)
		}
	}
	for state, wants := range map[sink.State]bool{sink.Writing: false, sink.Waiting: false, sink.Disabled: false, sink.Failing: true, sink.Stopped: true} {
		one := sink.Info{Sink: sink.Sink{Kind: "clickhouse"}, State: state, Error: "no such table"}
		if got := text(t, watch.State{Sinks: troubled([]sink.Info{one}, ofSink)}); strings.HasPrefix(got, "The sink clickhouse is "+string(state)+": no such table") != wants {
			t.Errorf("a sink that is %s: %q", state, got)
		}
	}
	for state, wants := range map[source.State]bool{source.Running: false, source.Waiting: false, source.Paused: false, source.Failing: true} {
		one := source.Info{Source: source.Source{Name: "rides"}, State: state, Error: "no route to host"}
		if got := text(t, watch.State{Takes: troubled([]source.Info{one}, ofSource)}); strings.HasPrefix(got, "The source rides is failing: no route") != wants {
			t.Errorf("a source that is %s: %q", state, got)
		}
	}
}

func TestDiskIsShortBelowTwiceWhatIsKeptFree(t *testing.T) {
	const least = 256 << 20
	for free, want := range map[int64]bool{0: false, 1: true, least: true, 2*least - 1: true, 2 * least: false, 2*least + 1: false} {
		if got := short(free, least); got != want || (text(t, watch.State{Short: got}) != "") != want {
			t.Errorf("%d bytes free: %t", free, got)
		}
	}
}

// Browsers open connections in reserve and close them unused: nobody was turned away.
func TestConnectionsThatSaidNothingWereNotRefused(t *testing.T) {
	for _, why := range admission.Reasons() {
		if why.Turns() != (why != admission.Unspoken) {
			t.Errorf("%s counts as refused: %t", why, why.Turns())
		}
	}
}
