package figures

import (
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/server/watch"
)

// short reports whether less than twice the space is free below which nothing is stored. 0: the free space is not known.
func short(free, least int64) bool { return free > 0 && free < 2*least }

// troubled lists those that have stopped to work although somebody wants them to.
func troubled[I any](list []I, of func(*I) (watch.Trouble, bool)) (found []watch.Trouble) {
	for i := range list {
		if t, ok := of(&list[i]); ok {
			found = append(found, t)
		}
	}
	return found
}

func ofHook(h *hook.Info) (watch.Trouble, bool) {
	t := watch.Trouble{Name: h.Hook.Name, State: string(h.State)}
	switch h.State {
	case hook.Failing:
		t.Error, t.Since = h.LastError, h.Progress.Failing
	case hook.Paused:
		t.Error, t.Since = h.Progress.Paused, h.PausedAt
	default:
		return t, false
	}
	return t, true
}

func ofSink(k *sink.Info) (watch.Trouble, bool) {
	return watch.Trouble{Name: k.Kind, State: string(k.State), Error: k.Error, Since: k.Since}, k.State == sink.Failing || k.State == sink.Stopped
}

func ofSource(s *source.Info) (watch.Trouble, bool) {
	return watch.Trouble{Name: s.Name, State: string(s.State), Error: s.Error, Since: s.Since}, s.State == source.Failing
}
