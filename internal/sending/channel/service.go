package channel

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/cluster/reload"
	"godwit.dev/godwit/internal/sending/push"
)

// Service provides senders and changes settings. It works on a copy of the stored settings in memory.
type Service struct {
	store   Store
	uploads uploads
	kinds   map[push.Channel]Kind
	log     *slog.Logger

	loading sync.Mutex // serializes reloads, so that an older one never replaces a newer one

	closing sync.WaitGroup // senders that are finishing

	mu      sync.Mutex
	records map[name]Record
	senders map[name]push.Sender // made on first use, dropped when their settings change
	changed chan struct{}        // closed with the next change
}

type name struct {
	app     string
	channel push.Channel
}

// New loads the store. The caller runs Run to follow changes that other processes make, and calls Close at the end.
func New(ctx context.Context, store Store, kinds map[push.Channel]Kind, log *slog.Logger) (*Service, error) {
	s := &Service{store: store, uploads: newUploads(), kinds: kinds, log: log, senders: make(map[name]push.Sender), changed: make(chan struct{})}
	return s, s.Reload(ctx)
}

// Run follows the store until ctx ends: changes take effect within a second. Its error is always nil: a store that
// cannot be read for a while is no reason to stop serving.
func (s *Service) Run(ctx context.Context) error {
	return reload.Store(ctx, "channels", s.store.Watch, s.Reload, s.log)
}

// Close closes the senders and waits until they have finished.
func (s *Service) Close() {
	s.mu.Lock()
	for n := range s.senders {
		s.drop(n)
	}
	s.mu.Unlock()
	s.closing.Wait()
}

// Reload reads the store anew.
func (s *Service) Reload(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	list, err := s.store.All(ctx)
	if err != nil {
		return fmt.Errorf("load channels: %w", err)
	}
	records := make(map[name]Record, len(list))
	for _, r := range list {
		records[name{r.App, r.Channel}] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.EqualFunc(s.records, records, untouched) {
		return nil
	}
	for n := range s.senders {
		if !same(s.records[n], records[n]) {
			s.drop(n)
		}
	}
	s.records = records
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func same(a, b Record) bool { return a.Enabled == b.Enabled && maps.Equal(a.Values, b.Values) }

func untouched(a, b Record) bool { return same(a, b) && a.UpdatedAt.Equal(b.UpdatedAt) }

// drop closes a sender. Calls that are using it can finish.
func (s *Service) drop(n name) {
	if c, ok := s.senders[n].(io.Closer); ok {
		s.closing.Go(func() {
			if err := c.Close(); err != nil {
				s.log.Warn("sender could not be closed", "app", n.app, "channel", n.channel, "error", err)
			}
		})
	}
	delete(s.senders, n)
}

// Changed returns a channel that is closed when any settings are set after the call, even to the same values: a person who sets them has
// checked them, and the fault may have been fixed elsewhere.
func (s *Service) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Apps lists, in order, the apps that have a channel set up and enabled.
func (s *Service) Apps(ch push.Channel) (apps []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, r := range s.records {
		if n.channel == ch && r.Enabled {
			apps = append(apps, n.app)
		}
	}
	slices.Sort(apps)
	return apps
}

// Has reports whether an app has a channel set up and enabled, with a value for a setting.
func (s *Service) Has(app string, ch push.Channel, setting string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[name{app, ch}]
	return ok && r.Enabled && r.Values[setting] != ""
}

// Channels lists the channels of this server, in order.
func (s *Service) Channels() []push.Channel { return slices.Sorted(maps.Keys(s.kinds)) }

// Sending lists the channels that messages are sent to, in order: also those that go through another one's settings.
func (s *Service) Sending() []push.Channel {
	all := s.Channels()
	for _, d := range push.All() {
		if _, has := s.kinds[d.Through]; has && !d.Follows {
			all = append(all, d.Channel)
		}
	}
	slices.Sort(all)
	return all
}

// Sender returns an app's sender for a channel. Callers must call it again at least every few seconds, so that a change of settings takes
// effect. Channels that need no settings get generated ones on first use.
func (s *Service) Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error) {
	if d := ch.Find(); d != nil && d.Through != "" {
		if d.Follows {
			return nil, fmt.Errorf("%w: %s follows objects: put a version of one, and it goes there", ErrUnknown, ch)
		}
		ch = d.Through
	}
	kind, ok := s.kinds[ch]
	if !ok {
		return nil, fmt.Errorf("%w: %.64q", ErrUnknown, string(ch))
	}
	if sender, err := s.open(kind, name{app, ch}); sender != nil || err != nil {
		return sender, err
	}
	if !kind.Auto() {
		return nil, fmt.Errorf("%s of app %s: %w", ch, app, ErrNotConfigured)
	}
	if err := s.ensure(ctx, kind, name{app, ch}); err != nil {
		return nil, err
	}
	return s.open(kind, name{app, ch})
}

// Delivers reports whether an app's channel delivers to a URL without the network.
func (s *Service) Delivers(app string, ch push.Channel, url string) bool {
	kind, ok := s.kinds[ch]
	if !ok {
		return false
	}
	sender, err := s.open(kind, name{app, ch})
	own, ok := sender.(interface{ Delivers(url string) bool })
	return err == nil && ok && own.Delivers(url)
}

// open returns the sender of a record, and makes it if necessary; nil: there is no record.
func (s *Service) open(kind Kind, n name) (push.Sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[n]
	switch {
	case !ok && len(kind.Fields()) == 0:
		r.Enabled = true // the channel has nothing that could be set
	case !ok:
		return nil, nil
	}
	if !r.Enabled {
		return nil, fmt.Errorf("%s of app %s: %w", n.channel, n.app, ErrDisabled)
	}
	if sender := s.senders[n]; sender != nil {
		return sender, nil
	}
	sender, err := kind.Open(n.app, r.Values)
	if err != nil {
		return nil, fmt.Errorf("open %s of app %s: %w", n.channel, n.app, err)
	}
	s.senders[n] = sender
	if a, ok := sender.(interface{ Advice() string }); ok && a.Advice() != "" {
		s.log.Warn("channel should be set again", "app", n.app, "channel", n.channel, "advice", a.Advice())
	}
	return sender, nil
}

// ensure stores the settings that a channel generates. If two processes try, the second one finds the first one's settings.
func (s *Service) ensure(ctx context.Context, kind Kind, n name) error {
	err := s.store.Update(ctx, n.app, string(n.channel), func(r *Record, _ int) error {
		if !r.UpdatedAt.IsZero() {
			return nil
		}
		r.UpdatedAt = moment()
		_, err := kind.Complete(r.Values)
		return err
	})
	if err != nil {
		return fmt.Errorf("set up %s of app %s: %w", n.channel, n.app, err)
	}
	return s.Reload(ctx)
}

func moment() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// byChannel orders infos.
func byChannel(a, b Info) int { return cmp.Compare(a.Channel, b.Channel) }
