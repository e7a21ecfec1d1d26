package hook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/pause"
)

// owning is an app whose events this server wants to post.
type owning struct {
	release func() // under Service.loading
	now     *owned // nil: this server does not post the app's events
}

// owned is an app whose events this server posts. It lasts from the takeover until the lease ends.
type owned struct {
	s     *Service
	app   string
	epoch int64
	held  func() bool
	ctx   context.Context // ends with that
	lose  context.CancelFunc

	turn  sync.Mutex // serializes changes of the set of running hooks
	ended bool       // under turn

	// Under Service.mu.
	runners map[string]*runner  // by name, with paused and disabled hooks
	left    map[string]Progress // by name; progress of hooks that this server has not loaded yet
	gone    []string            // hooks whose progress is to be deleted
}

// want requests the leases of apps that have hooks to run or progress to delete, while the service runs, and gives up the leases of other
// apps. s.loading is held.
func (s *Service) want() {
	var release, ask []*owning
	var names []string
	s.mu.Lock()
	ctx := s.life
	wanted := make(map[string]bool)
	if ctx != nil {
		for app, hooks := range s.hooks {
			wanted[app] = len(hooks) > 0
		}
		for app := range s.stray {
			wanted[app] = true
		}
	}
	for app, o := range s.apps {
		if !wanted[app] {
			release = append(release, o)
			delete(s.apps, app)
		}
	}
	for app, wants := range wanted {
		if wants && s.apps[app] == nil {
			s.apps[app] = &owning{}
			ask, names = append(ask, s.apps[app]), append(names, app)
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, o := range release {
		wg.Go(o.release)
	}
	wg.Wait()
	for i, o := range ask {
		owns := s.cfg.Own
		if owns == nil {
			owns = lease.Alone(ctx)
		}
		o.release = owns(names[i], func(ctx context.Context, held func() bool) { s.hold(ctx, names[i], o, held) })
	}
}

// owned lists the apps that this server owns.
func (s *Service) owned() (list []*owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.apps {
		if o.now != nil {
			list = append(list, o.now)
		}
	}
	return list
}

// hold posts an app's events until ctx ends.
func (s *Service) hold(ctx context.Context, app string, o *owning, held func() bool) {
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	w := &owned{s: s, app: app, held: lease.Heeding(held, lose), ctx: ctx, lose: lose, runners: make(map[string]*runner), left: make(map[string]Progress)}
	for {
		err := w.takeOver(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		s.log.WarnContext(ctx, "hooks cannot be taken over yet", "app", app, "error", err)
		pause.For(ctx, takeAgain)
	}
	s.mu.Lock()
	o.now = w
	delete(s.stray, app)
	s.mu.Unlock()
	s.touch() // the save that follows also deletes progress of deleted hooks
	w.adjust()
	<-ctx.Done()
	s.mu.Lock()
	o.now = nil
	s.mu.Unlock()
	w.end(context.WithoutCancel(ctx))
}

// takeOver makes this server the owner of the app's progress, and reads the progress that the former owner saved.
func (w *owned) takeOver(ctx context.Context) error {
	epoch, list, err := w.s.progress.OwnHookProgress(ctx, w.app)
	if err != nil {
		return fmt.Errorf("take over hooks: %w", err)
	}
	w.epoch = epoch
	for _, p := range list {
		w.left[p.Name] = p
	}
	w.s.mu.Lock()
	unknown := len(w.left)
	for name := range w.s.hooks[w.app] {
		if _, ok := w.left[name]; ok {
			unknown--
		}
	}
	w.s.mu.Unlock()
	if unknown == 0 {
		return nil
	}
	// The remaining progress belongs to deleted hooks, or to new hooks that this server has not loaded yet.
	hooks, err := w.s.store.All(ctx)
	if err != nil {
		return fmt.Errorf("load hooks: %w", err)
	}
	there := make(map[string]bool)
	for i := range hooks {
		if hooks[i].App == w.app {
			there[hooks[i].Name] = true
		}
	}
	for name := range w.left {
		if !there[name] {
			delete(w.left, name)
			w.gone = append(w.gone, name)
		}
	}
	return nil
}

// adjust stops and starts runners so that they match the hooks' current settings.
func (w *owned) adjust() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.ended {
		return
	}
	w.s.mu.Lock()
	hooks, old := maps.Clone(w.s.hooks[w.app]), make(map[string]*runner)
	for name, r := range w.runners {
		if h, ok := hooks[name]; !ok || !r.hook.same(&h) {
			old[name] = r
		}
	}
	w.s.mu.Unlock()
	stop(old)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for name, r := range old {
		w.left[name] = r.whole()
		delete(w.runners, name)
		if _, ok := hooks[name]; !ok {
			delete(w.left, name)
			w.gone = append(w.gone, name)
			w.s.touch()
		}
	}
	newest := w.s.events.Last()
	for name, h := range hooks {
		if w.runners[name] != nil {
			continue
		}
		var p *Progress
		if saved, ok := w.left[name]; ok {
			p = &saved
			delete(w.left, name)
		}
		w.runners[name] = w.start(&h, p.heed(&h, newest))
	}
}

// start makes a runner for the hook, and runs it unless the hook is disabled or paused.
func (w *owned) start(h *Hook, p Progress) *runner {
	r := &runner{s: w.s, held: w.held, hook: *h, p: p, win: newWindow(&p), dirty: true}
	w.s.touch()
	if h.Enabled && p.Paused == "" {
		ctx, cancel := context.WithCancel(w.ctx)
		r.cancel, r.done = cancel, make(chan struct{})
		go r.run(ctx)
	}
	return r
}

// end stops all runners and saves their progress. The lease leaves time for both before another server begins.
func (w *owned) end(ctx context.Context) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.ended = true
	stop(w.runners)
	patience := saveFor
	if !w.held() {
		patience = saveLost
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the store took longer than %s", patience))
	defer cancel()
	w.s.save(ctx, w)
}

// stop ends runners and waits for them.
func stop(runners map[string]*runner) {
	for _, r := range runners {
		if r.cancel != nil {
			r.cancel()
		}
	}
	for _, r := range runners {
		if r.cancel != nil {
			<-r.done
		}
	}
}

// known adds the progress of an app's hooks to a map. False: another server owns the progress.
func (s *Service) known(app string, to map[string]Progress) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.apps[app]
	if o == nil || o.now == nil {
		return false
	}
	maps.Copy(to, o.now.left)
	for name, r := range o.now.runners {
		to[name] = r.whole()
	}
	return true
}

// save writes what has changed.
func (s *Service) save(ctx context.Context, of ...*owned) {
	select {
	case s.saving <- struct{}{}:
		defer func() { <-s.saving }()
	case <-ctx.Done():
		return
	}
	list, from, taken := s.unsaved(of)
	if len(list) == 0 {
		return
	}
	former, err := s.progress.SaveHookProgress(ctx, list)
	if err != nil {
		s.log.WarnContext(ctx, "progress of hooks could not be saved; trying again", "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, w := range from {
			w.gone = append(w.gone, list[i].Forget...)
		}
		for _, r := range taken {
			r.progress(func(*Progress) {})
		}
		return
	}
	for _, w := range from {
		if slices.Contains(former, w.app) {
			s.log.InfoContext(ctx, "another server posts to the hooks of an app now", "app", w.app)
			w.lose()
		}
	}
}

// unsaved takes the changes to write, with their apps and runners.
func (s *Service) unsaved(of []*owned) (list []Saving, from []*owned, taken []*runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range of {
		v := Saving{App: w.app, Epoch: w.epoch, Forget: w.gone}
		for _, r := range w.runners {
			if p, dirty := r.take(); dirty {
				v.Save, taken = append(v.Save, p), append(taken, r)
			}
		}
		if len(v.Save)+len(v.Forget) > 0 {
			list, from = append(list, v), append(from, w)
			w.gone = nil
		}
	}
	return list, from, taken
}
