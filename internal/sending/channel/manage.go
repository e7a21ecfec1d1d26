package channel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Every change is logged: the log is the audit trail. It never contains values.

const (
	maxValue = 16 << 10 // most bytes of a value; a PEM key has 300
	// keyField is the name of the public key among the values that Web Push shows.
	keyField = "public_key"
)

// List returns an app's channels, including those that are not set up.
func (s *Service) List(app string) []Info {
	infos := make([]Info, 0, len(s.kinds))
	for ch := range s.kinds {
		if info, err := s.Get(app, ch); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, byChannel)
	return infos
}

// Get returns an app's settings of one channel.
func (s *Service) Get(app string, ch push.Channel) (Info, error) {
	kind, ok := s.kinds[ch]
	if !ok {
		return Info{}, fmt.Errorf("%w: %.64q", ErrUnknown, string(ch))
	}
	s.mu.Lock()
	r, ok := s.records[name{app, ch}]
	s.mu.Unlock()
	if !ok {
		return Info{Channel: ch, Configured: kind.Auto(), Enabled: kind.Auto(), Settings: map[string]any{}, Credentials: []string{}}, nil
	}
	return show(kind, &r), nil
}

func show(kind Kind, r *Record) Info {
	info := Info{
		Channel: r.Channel, Configured: true, Enabled: r.Enabled, UpdatedAt: r.UpdatedAt,
		Settings: map[string]any{}, Credentials: []string{},
	}
	for _, f := range kind.Fields() {
		switch v := r.Values[f.Name]; {
		case v == "":
		case f.Secret:
			info.Credentials = append(info.Credentials, f.Name)
		case f.Type == Bool:
			info.Settings[f.Name] = true
		case f.Type == List:
			info.Settings[f.Name] = strings.Fields(v)
		default:
			info.Settings[f.Name] = v
		}
	}
	for k, v := range kind.Shown(r.Values) {
		info.Settings[k] = v
	}
	return info
}

// Fields returns the settings that a channel has.
func (s *Service) Fields(ch push.Channel) ([]Field, error) {
	kind, ok := s.kinds[ch]
	if !ok {
		return nil, fmt.Errorf("%w: %.64q", ErrUnknown, string(ch))
	}
	return kind.Fields(), nil
}

// Set changes an app's settings of a channel. made contains the values that Set had to generate; only this call returns them.
func (s *Service) Set(ctx context.Context, app string, ch push.Channel, change Change) (info Info, made Values, err error) {
	kind, ok := s.kinds[ch]
	if !ok {
		return Info{}, nil, fmt.Errorf("%w: %.64q", ErrUnknown, string(ch))
	}
	if err := check(kind, change.Values); err != nil {
		return Info{}, nil, err
	}
	err = s.store.Update(ctx, app, string(ch), func(r *Record, _ int) (err error) {
		if err := r.matches(change.Must); err != nil {
			return err
		}
		if err := checkKept(kind, r.Values, change.Values); err != nil {
			return err
		}
		for k, v := range change.Values {
			if v == "" {
				delete(r.Values, k)
			} else {
				r.Values[k] = v
			}
		}
		if change.Enabled != nil {
			r.Enabled = *change.Enabled
		}
		r.UpdatedAt = setting.After(r.UpdatedAt, time.Now())
		made, err = kind.Complete(r.Values)
		info = show(kind, r)
		return err
	})
	if err != nil {
		return Info{}, nil, fmt.Errorf("change %s of app %s: %w", ch, app, err)
	}
	s.log.InfoContext(ctx, "channel changed", "app", app, "channel", ch, "enabled", info.Enabled)
	return info, made, s.Reload(ctx)
}

// checkKept refuses a change that would send a stored secret to another server than it was given for: who may change a setting could read it
// there. The provider's own server, which an empty address means, is fine.
func checkKept(kind Kind, before, change Values) error {
	fields := kind.Fields()
	for _, at := range fields {
		if to := change[at.Name]; !at.Address || to == "" || to == before[at.Name] {
			continue
		}
		for _, f := range fields {
			if _, given := change[f.Name]; f.Secret && !given && before[f.Name] != "" {
				return notification.BadField(f.Name, "was stored for another server, and this change of %s would send it to a new one: give it again", at.Name)
			}
		}
	}
	return nil
}

// check checks the form of values; the kind checks their meaning.
func check(kind Kind, values Values) error {
	fields := kind.Fields()
	for k, v := range values {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == k })
		switch {
		case i < 0:
			return notification.BadField(k, "is not a setting of this channel")
		case len(v) > maxValue:
			return notification.BadField(k, "has more than %d bytes", maxValue)
		case fields[i].Type == Bool && v != "" && v != "true":
			return notification.BadField(k, "must be true or false")
		case strings.ContainsRune(v, 0):
			return notification.BadField(k, "contains a NUL character")
		}
	}
	return nil
}

// matches fails with *setting.ChangedError if the settings have another revision.
func (r *Record) matches(must setting.Match) error {
	return must.Check("channel "+string(r.Channel), setting.RevisionAt(r.UpdatedAt))
}

// Delete deletes an app's settings of a channel, credentials included, if they match. It fails with ErrNotConfigured if there are none.
func (s *Service) Delete(ctx context.Context, app string, ch push.Channel, must setting.Match) error {
	if _, ok := s.kinds[ch]; !ok {
		return fmt.Errorf("%w: %.64q", ErrUnknown, string(ch))
	}
	found, err := s.store.Delete(ctx, app, string(ch), func(r *Record) error { return r.matches(must) })
	if err != nil {
		return fmt.Errorf("delete %s of app %s: %w", ch, app, err)
	}
	if !found {
		return fmt.Errorf("delete %s of app %s: %w", ch, app, ErrNotConfigured)
	}
	s.log.InfoContext(ctx, "channel deleted", "app", app, "channel", ch)
	return s.Reload(ctx)
}

// Check tests a channel's credentials, as far as that is possible without sending a message.
func (s *Service) Check(ctx context.Context, app string, ch push.Channel) (about string, err error) {
	sender, err := s.Sender(ctx, app, ch)
	if err != nil {
		return "", err
	}
	checker, ok := sender.(push.Checker)
	if !ok {
		return "", nil
	}
	return checker.Check(ctx)
}

// WebPushKey returns the key with which browsers subscribe to an app. It is made on first use.
func (s *Service) WebPushKey(ctx context.Context, app string) (string, error) {
	if _, err := s.Sender(ctx, app, push.WebPush); err != nil {
		return "", err
	}
	info, err := s.Get(app, push.WebPush)
	public, _ := info.Settings[keyField].(string)
	return public, err
}
