package appsql

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
)

// appSettings is the part of an app that is stored as JSON. Its only secret is in the field named so.
type appSettings struct {
	Origins          []string `json:"origins,omitempty"`
	AnonymousOrigins []string `json:"anonymous_origins,omitempty"`
	JWKSURL          string   `json:"jwks_url,omitempty"`
	IntrospectURL    string   `json:"introspect_url,omitempty"`
	IntrospectID     string   `json:"introspect_id,omitempty"`
	IntrospectSecret string   `json:"introspect_secret,omitempty"`
	Issuer           string   `json:"issuer,omitempty"`
	Audience         string   `json:"audience,omitempty"`

	CertificateTopics  []string `json:"certificate_topics,omitempty"`
	CertificateServe   []string `json:"certificate_serve,omitempty"`
	CertificatePublish []string `json:"certificate_publish,omitempty"`
	MQTTKeep           []string `json:"mqtt_keep,omitempty"`

	Batches    map[string]time.Duration       `json:"batches,omitempty"` // in nanoseconds
	Services   map[string]access.Service      `json:"services,omitempty"`
	Categories map[string]preference.Category `json:"categories,omitempty"`
	Guides     map[string]access.GuideState   `json:"guides,omitempty"`
	Revision   int64                          `json:"revision,omitempty"`
}

// encodeApp writes an app's settings, and its keys for JWTs, secrets included.
func encodeApp(app *access.App) (set, jwtKeys string, err error) {
	b, err := json.Marshal(appSettings{
		Origins: app.Origins, AnonymousOrigins: app.AnonymousOrigins, JWKSURL: app.JWKSURL, Issuer: app.Issuer, Audience: app.Audience,
		IntrospectURL: app.IntrospectURL, IntrospectID: app.IntrospectID, IntrospectSecret: string(app.IntrospectSecret),
		CertificateTopics: app.CertificateTopics, CertificateServe: app.CertificateServe, CertificatePublish: app.CertificatePublish, MQTTKeep: app.MQTTKeep,
		Batches: app.Batches, Services: app.Services, Categories: app.Categories, Guides: app.Guides, Revision: app.Revision,
	})
	if err != nil {
		return "", "", fmt.Errorf("encode app %s: %w", app.Name, err)
	}
	k, err := access.EncodeJWTKeys(app.JWTKeys)
	return string(b), string(k), err
}

// decodeApp sets an app from its stored texts.
func decodeApp(app *access.App, set, jwtKeys string) error {
	var s appSettings
	if err := json.Unmarshal([]byte(set), &s); err != nil {
		return fmt.Errorf("app %s: settings are damaged", app.Name)
	}
	app.Origins, app.JWKSURL, app.Issuer, app.Audience = s.Origins, s.JWKSURL, s.Issuer, s.Audience
	app.CertificateTopics, app.CertificateServe, app.Revision = s.CertificateTopics, s.CertificateServe, s.Revision
	app.MQTTKeep, app.CertificatePublish, app.Guides = s.MQTTKeep, s.CertificatePublish, s.Guides
	app.AnonymousOrigins, app.Batches, app.Services, app.Categories = s.AnonymousOrigins, s.Batches, s.Services, s.Categories
	app.IntrospectURL, app.IntrospectID, app.IntrospectSecret = s.IntrospectURL, s.IntrospectID, access.Secret(s.IntrospectSecret)
	var err error
	if app.JWTKeys, err = access.DecodeJWTKeys([]byte(jwtKeys)); err != nil {
		return fmt.Errorf("app %s: %w", app.Name, err)
	}
	return nil
}

// hookSettings is the part of a hook that is stored as JSON.
type hookSettings struct {
	URL     string       `json:"url"`
	Types   []event.Type `json:"types,omitempty"`
	Secrets []string     `json:"secrets"`
	Enabled bool         `json:"enabled"`
	From    uint64       `json:"from,omitempty"`
	FromAt  int64        `json:"from_at,omitempty"` // milliseconds
}

// encodeHook writes a hook's settings, secrets included.
func encodeHook(h *hook.Hook) (string, error) {
	set := hookSettings{URL: h.URL, Types: h.Types, Secrets: h.Secrets, Enabled: h.Enabled, From: h.From}
	if !h.FromAt.IsZero() {
		set.FromAt = h.FromAt.UnixMilli()
	}
	b, err := json.Marshal(set)
	if err != nil {
		return "", fmt.Errorf("encode hook %s: %w", h.Name, err)
	}
	return string(b), nil
}

// decodeHook sets a hook from its stored text.
func decodeHook(h *hook.Hook, written string) error {
	var set hookSettings
	if err := json.Unmarshal([]byte(written), &set); err != nil {
		return fmt.Errorf("app %s: settings of hook %s are damaged", h.App, h.Name)
	}
	h.URL, h.Types, h.Secrets, h.Enabled, h.From = set.URL, set.Types, set.Secrets, set.Enabled, set.From
	if set.FromAt != 0 {
		h.FromAt = time.UnixMilli(set.FromAt).UTC()
	}
	return nil
}

// encodeChannel writes a channel's settings, secrets included.
func encodeChannel(r *channel.Record) (string, error) {
	b, err := json.Marshal(r.Values)
	if err != nil {
		return "", fmt.Errorf("encode settings of %s: %w", r.Channel, err)
	}
	return string(b), nil
}

// decodeChannel sets a channel's settings from their stored text.
func decodeChannel(r *channel.Record, written string) error {
	r.Values = channel.Values{}
	if err := json.Unmarshal([]byte(written), &r.Values); err != nil {
		return fmt.Errorf("app %s: settings of %s are damaged", r.App, r.Channel)
	}
	return nil
}

// encodeKind writes settings of a kind as one object: the kind's values, secrets included, together with the members of every kind.
func encodeKind(v setting.Values, members any) (string, error) {
	all := maps.Clone(map[string]json.RawMessage(v))
	b, err := json.Marshal(members)
	if err == nil {
		err = json.Unmarshal(b, &all) // beside what is there
	}
	if err == nil {
		b, err = json.Marshal(all)
	}
	return string(b), err
}

// decodeKind reads the named members of every kind, and returns the remaining values of the kind.
func decodeKind(written string, members any, names ...string) (setting.Values, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(written), &all); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(all, name)
	}
	return all, json.Unmarshal([]byte(written), members)
}

// sourceSettings holds the members of every source.
type sourceSettings struct {
	Kind     string `json:"kind,omitempty"` // empty: the source has the name of its kind
	Enabled  bool   `json:"enabled"`
	Private  bool   `json:"private,omitempty"`
	ResyncAt int64  `json:"resync_at,omitempty"` // milliseconds
}

func encodeSource(s *source.Source) (string, error) {
	set := sourceSettings{Enabled: s.Enabled, Private: s.Private}
	if s.Kind != s.Name {
		set.Kind = s.Kind
	}
	if !s.ResyncAt.IsZero() {
		set.ResyncAt = s.ResyncAt.UnixMilli()
	}
	text, err := encodeKind(s.Values, set)
	if err != nil {
		return "", fmt.Errorf("encode source %s: %w", s.Name, err)
	}
	return text, nil
}

func decodeSource(s *source.Source, written string) error {
	var set sourceSettings
	values, err := decodeKind(written, &set, "kind", "enabled", "private", "resync_at")
	if err != nil {
		return fmt.Errorf("app %s: settings of source %s are damaged", s.App, s.Name)
	}
	s.Kind, s.Values, s.Enabled, s.Private = set.Kind, values, set.Enabled, set.Private
	if s.Kind == "" {
		s.Kind = s.Name
	}
	if set.ResyncAt != 0 {
		s.ResyncAt = fromMillis(set.ResyncAt)
	}
	return nil
}

// sinkSettings holds the members of every sink.
type sinkSettings struct {
	Backfill bool   `json:"backfill,omitempty"`
	From     uint64 `json:"from,omitempty"`
	Enabled  bool   `json:"enabled"`
	Private  bool   `json:"private,omitempty"`
}

func encodeSink(s *sink.Sink) (string, error) {
	text, err := encodeKind(s.Values, sinkSettings{s.Backfill, s.From, s.Enabled, s.Private})
	if err != nil {
		return "", fmt.Errorf("encode sink %s: %w", s.Kind, err)
	}
	return text, nil
}

func decodeSink(s *sink.Sink, written string) error {
	var set sinkSettings
	values, err := decodeKind(written, &set, "backfill", "from", "enabled", "private")
	if err != nil {
		return fmt.Errorf("app %s: settings of sink %s are damaged", s.App, s.Kind)
	}
	s.Values, s.Backfill, s.From, s.Enabled, s.Private = values, set.Backfill, set.From, set.Enabled, set.Private
	return nil
}

// encodeTemplate returns the stored form of a template.
func encodeTemplate(t *template.Template) (string, error) {
	b, err := json.Marshal(t.Content)
	if err != nil {
		return "", fmt.Errorf("encode template %s: %w", t.Name, err)
	}
	return string(b), nil
}

// decodeTemplate sets a template's content from its stored text.
func decodeTemplate(t *template.Template, written string) error {
	if err := json.Unmarshal([]byte(written), &t.Content); err != nil {
		return fmt.Errorf("app %s: template %s is damaged", t.App, t.Name)
	}
	return nil
}

// segmentSettings is the part of a segment that is stored as JSON.
type segmentSettings struct {
	Where       string `json:"where"`
	Description string `json:"description,omitempty"`
}

func encodeSegment(s *segment.Segment) (string, error) {
	b, err := json.Marshal(segmentSettings{s.Where, s.Description})
	if err != nil {
		return "", fmt.Errorf("encode segment %s: %w", s.Name, err)
	}
	return string(b), nil
}

func decodeSegment(s *segment.Segment, written string) error {
	var set segmentSettings
	if err := json.Unmarshal([]byte(written), &set); err != nil {
		return fmt.Errorf("app %s: segment %s is damaged", s.App, s.Name)
	}
	s.Where, s.Description = set.Where, set.Description
	return nil
}
