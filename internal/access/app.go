package access

import (
	"slices"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of an app's settings.
const (
	maxOrigins    = 64  // limited because every browser connection compares them one by one
	maxStaticKeys = 16  // limited because a token without key id is verified with each
	maxURLBytes   = 512 // longer ones are mistakes
)

// App is a namespace for recipients, with the settings that authenticate its clients.
type App struct {
	Name    string   `json:"name"`
	Origins []string `json:"origins"` // origins of browser pages that may connect; none: the server's own origin
	// JWTKeys verify client tokens. One of them, created with the app, also signs tokens (JWTKey.Mints).
	JWTKeys []JWTKey `json:"jwt_keys"`
	JWKSURL string   `json:"jwks_url,omitempty"`
	// AnonymousOrigins are the origins of pages whose visitors may register for push messages without a token; none: no visitor may.
	AnonymousOrigins []string `json:"anonymous_origins,omitempty"`
	// IntrospectURL is the server that verifies opaque tokens (RFC 7662), called with HTTP Basic credentials if an id is set.
	IntrospectURL    string `json:"introspect_url,omitempty"`
	IntrospectID     string `json:"introspect_id,omitempty"`
	IntrospectSecret Secret `json:"introspect_secret,omitempty"`
	Issuer           string `json:"issuer,omitempty"`   // demanded of tokens when set
	Audience         string `json:"audience,omitempty"` // demanded of tokens when set
	// CertificateTopics, CertificateServe and CertificatePublish are what a client certificate allows, as the claims topics, serve and publish of a token
	// do.
	CertificateTopics  []string `json:"certificate_topics,omitempty"`
	CertificateServe   []string `json:"certificate_serve,omitempty"`
	CertificatePublish []string `json:"certificate_publish,omitempty"`
	// MQTTKeep are patterns of topics whose messages wait for clients of MQTT that are away; none: no topic's do.
	MQTTKeep []string `json:"mqtt_keep,omitempty"`
	// Services are the settings of services that are called through the gateway, by name.
	Services map[string]Service `json:"services,omitempty"`
	// Batches are the fixed batching intervals of objects, by group.
	Batches map[string]time.Duration `json:"batches,omitempty"`
	// Categories are the settings of notification categories: which ones recipients may not refuse, and how often escalation steps may
	// begin for a recipient.
	Categories map[string]preference.Category `json:"categories,omitempty"`
	// Guides are the states of the web page's guides, by name.
	Guides    map[string]GuideState `json:"guides,omitempty"`
	CreatedAt time.Time             `json:"created_at"`
	// Revision counts the changes of the settings above, guides excepted, so that of two operators the later learns of the earlier.
	Revision int64 `json:"revision"`
}

// AppChange holds changes of an app. Nil fields stay as they are, others replace the stored values.
type AppChange struct {
	Origins          *[]string
	AnonymousOrigins *[]string
	JWTKeys          *[]JWTKey // replaces all keys except the key that mints tokens
	JWKSURL          *string
	IntrospectURL    *string
	IntrospectID     *string
	IntrospectSecret *Secret
	Issuer           *string
	Audience         *string
	// CertificateTopics, CertificateServe and CertificatePublish replace what client certificates of the app allow.
	CertificateTopics  *[]string
	CertificateServe   *[]string
	CertificatePublish *[]string
	MQTTKeep           *[]string // replaces the patterns of topics whose messages wait for clients of MQTT
	// Tag, if not nil, is the tag that the app must still have.
	Tag        *string
	NewMintKey bool // replace the key that mints tokens; tokens signed with the old key become invalid
}

// apply changes app and checks the result.
func (c *AppChange) apply(app *App, targets urlguard.Targets) error {
	set(&app.JWKSURL, c.JWKSURL)
	set(&app.IntrospectURL, c.IntrospectURL)
	set(&app.IntrospectID, c.IntrospectID)
	set(&app.IntrospectSecret, c.IntrospectSecret)
	set(&app.Issuer, c.Issuer)
	set(&app.Audience, c.Audience)
	set(&app.CertificateTopics, c.CertificateTopics)
	set(&app.CertificateServe, c.CertificateServe)
	set(&app.CertificatePublish, c.CertificatePublish)
	set(&app.MQTTKeep, c.MQTTKeep)
	for _, list := range []struct {
		into *[]string
		from *[]string
	}{{&app.Origins, c.Origins}, {&app.AnonymousOrigins, c.AnonymousOrigins}} {
		if list.from == nil {
			continue
		}
		*list.into = nil
		for _, o := range *list.from {
			norm, err := normalOrigin(o)
			if err != nil {
				return err
			}
			*list.into = append(*list.into, norm)
		}
	}
	if c.JWTKeys != nil {
		app.JWTKeys = slices.DeleteFunc(slices.Clone(app.JWTKeys), func(k JWTKey) bool { return !k.Mints })
		for _, k := range *c.JWTKeys {
			k.Mints = false
			app.JWTKeys = append(app.JWTKeys, k)
		}
	}
	if c.NewMintKey {
		keys := slices.DeleteFunc(slices.Clone(app.JWTKeys), func(k JWTKey) bool { return k.Mints })
		app.JWTKeys = append([]JWTKey{newMintKey()}, keys...)
	}
	return app.check(targets)
}

// Tag identifies the state of the app's settings: it differs after every change, and for an app of the same name that was made later.
func (app *App) Tag() string {
	return strconv.FormatInt(app.CreatedAt.UnixMilli(), 36) + "-" + strconv.FormatInt(app.Revision, 10)
}

// checkTag fails with *TagError unless the app has the tag; nil: any will do.
func (app *App) checkTag(tag *string) error {
	if tag != nil && *tag != app.Tag() {
		return &TagError{App: app.Name}
	}
	return nil
}

// TagError reports that an app's settings are not those that the caller knows.
type TagError struct{ App string }

func (e *TagError) Error() string {
	return "somebody has changed app " + e.App + " meanwhile: read it, and change what it says now"
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func (app *App) check(targets urlguard.Targets) error {
	if err := notification.CheckName("app", app.Name); err != nil {
		return err
	}
	if n := max(len(app.Origins), len(app.AnonymousOrigins)); n > maxOrigins {
		return notification.BadField("origin", "has %d entries; at most %d are allowed", n, maxOrigins)
	}
	if len(app.JWTKeys) > maxStaticKeys+1 {
		return notification.BadField("jwt_key", "has %d keys; at most %d are allowed, use a JWKS URL", len(app.JWTKeys)-1, maxStaticKeys)
	}
	for _, list := range []struct {
		field    string
		patterns []string
	}{{"certificate_topics", app.CertificateTopics}, {"certificate_serve", app.CertificateServe}, {"certificate_publish", app.CertificatePublish}, {"mqtt_keep", app.MQTTKeep}} {
		if err := checkPatterns(list.field, list.patterns); err != nil {
			return err
		}
	}
	for _, u := range []struct{ field, url string }{{"jwks_url", app.JWKSURL}, {"introspect_url", app.IntrospectURL}} {
		if u.url == "" {
			continue
		}
		if len(u.url) > maxURLBytes {
			return notification.BadField(u.field, "is longer than %d bytes", maxURLBytes)
		}
		if err := targets.CheckURL(u.url); err != nil {
			return notification.BadField(u.field, "%s", err)
		}
	}
	return nil
}

// checkPatterns checks patterns of topics or subjects, in which {sub} stands for a recipient.
func checkPatterns(field string, patterns []string) error {
	if len(patterns) > maxPatterns {
		return notification.BadField(field, "has %d patterns; at most %d are allowed", len(patterns), maxPatterns)
	}
	for _, p := range patterns {
		if err := topic.CheckPattern(field, topic.Fill(p, "recipient")); err != nil {
			return err
		}
	}
	return nil
}

// mintKey returns the key that signs tokens for the app, if it has one.
func (app *App) mintKey() (JWTKey, bool) {
	if i := slices.IndexFunc(app.JWTKeys, func(k JWTKey) bool { return k.Mints }); i >= 0 {
		return app.JWTKeys[i], true
	}
	return JWTKey{}, false
}
