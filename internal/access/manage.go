package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/notify/notification"
)

// Every change is logged: the log is the audit trail.

// Apps lists the apps by name.
func (r *Registry) Apps() []App {
	snap := r.snap.Load()
	apps := make([]App, 0, len(snap.apps))
	for _, a := range snap.apps {
		apps = append(apps, *a)
	}
	slices.SortFunc(apps, func(a, b App) int { return cmp.Compare(a.Name, b.Name) })
	return apps
}

// App returns an app. With an empty name, it returns the only app. If there is none, it fails with ErrUnknownApp.
func (r *Registry) App(name string) (App, error) {
	snap := r.snap.Load()
	if a, ok := snap.apps[snap.defaultApp(name)]; ok {
		return *a, nil
	}
	return App{}, unknownApp(name)
}

// Stored returns an app, also one that is not served yet because the data of a deleted app of its name is still being erased.
func (r *Registry) Stored(name string) (App, error) {
	if a, ok := r.snap.Load().waiting[name]; ok {
		return *a, nil
	}
	if a, ok := r.snap.Load().apps[name]; ok {
		return *a, nil
	}
	return App{}, unknownApp(name)
}

func unknownApp(name string) error {
	if name == "" {
		return fmt.Errorf("%w: name the app, there is not exactly one", ErrUnknownApp)
	}
	return fmt.Errorf("%w: %.128q", ErrUnknownApp, name)
}

// CreateApp creates an app with these settings and an HS256 key that signs its tokens.
func (r *Registry) CreateApp(ctx context.Context, name string, settings AppChange) error {
	app := App{Name: name, CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	settings.NewMintKey = true
	if err := settings.apply(&app, r.cfg.Targets); err != nil {
		return err
	}
	if err := r.store.CreateApp(ctx, app); err != nil {
		return fmt.Errorf("create app %s: %w", name, err)
	}
	r.log.InfoContext(ctx, "app created", "app", name)
	return r.Reload(ctx)
}

// SetApp changes an app.
func (r *Registry) SetApp(ctx context.Context, name string, change AppChange) error {
	err := r.store.UpdateApp(ctx, name, func(app *App) error {
		if err := app.checkTag(change.Tag); err != nil {
			return err
		}
		app.Revision++
		return change.apply(app, r.cfg.Targets)
	})
	if err != nil {
		return fmt.Errorf("change app %s: %w", name, err)
	}
	r.log.InfoContext(ctx, "app changed", "app", name)
	return r.Reload(ctx)
}

// Erasing lists the deleted apps whose data must still be erased.
func (r *Registry) Erasing() []string { return r.snap.Load().erasing }

// AppErased records that a deleted app's data has been erased.
func (r *Registry) AppErased(ctx context.Context, name string) error {
	if err := r.store.AppErased(ctx, name); err != nil {
		return fmt.Errorf("end the erasure of app %s: %w", name, err)
	}
	r.log.InfoContext(ctx, "app erased", "app", name)
	return r.Reload(ctx)
}

// DeleteApp deletes an app and its keys. A running server, or the next one to start, erases its data. tag, if not nil, is the tag that the
// app must still have.
func (r *Registry) DeleteApp(ctx context.Context, name string, tag *string) error {
	if err := r.store.DeleteApp(ctx, name, func(app *App) error { return app.checkTag(tag) }); err != nil {
		return fmt.Errorf("delete app %s: %w", name, err)
	}
	r.log.InfoContext(ctx, "app deleted", "app", name)
	return r.Reload(ctx)
}

// Keys lists an app's keys, oldest first.
func (r *Registry) Keys(app string) []Key {
	keys := []Key{}
	for _, k := range r.snap.Load().list {
		if k.App == app {
			key := k.Key
			key.LastUsed = k.lastUsed()
			keys = append(keys, key)
		}
	}
	return keys
}

// maxKeyName limits the name of a key, in characters, because lists show it.
const maxKeyName = 128

// CreateKey creates an API key and returns its secret. The secret is not stored and cannot be shown again.
func (r *Registry) CreateKey(ctx context.Context, app, name string, roles Role) (Key, string, error) {
	if utf8.RuneCountInString(name) > maxKeyName || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		return Key{}, "", notification.BadField("name", "must be printable text of at most %d characters", maxKeyName)
	}
	k, secret := newKey(app, name, roles, time.Now().UTC().Truncate(time.Millisecond))
	if err := r.store.CreateKey(ctx, k); err != nil {
		return Key{}, "", fmt.Errorf("create key for app %s: %w", app, err)
	}
	r.log.InfoContext(ctx, "API key created", "app", app, "key", k.ID, "roles", roles.String())
	return k.Key, secret, r.Reload(ctx)
}

// DeleteKey revokes a key of an app.
func (r *Registry) DeleteKey(ctx context.Context, app, id string) error {
	if err := r.store.DeleteKey(ctx, app, id); err != nil {
		return fmt.Errorf("delete key %.128q of app %s: %w", id, app, err)
	}
	r.log.InfoContext(ctx, "API key deleted", "app", app, "key", id)
	return r.Reload(ctx)
}

// minBootstrapKey is the minimum length of a key that this server did not create: 16 bytes can hold 128 random bits.
const minBootstrapKey = 16

// Bootstrap makes sure that an app exists and that the API key in a file is its admin key (GODWIT_BOOTSTRAP_APP,
// GODWIT_BOOTSTRAP_KEY_FILE). If the file is missing or empty, it creates a key and writes it to the file. If the file has changed, its key
// replaces the former one. If both values are empty, it does nothing.
func (r *Registry) Bootstrap(ctx context.Context, app, keyFile string) error {
	switch {
	case app == "" && keyFile == "":
		return nil
	case app == "":
		return notification.BadField("bootstrap_app", "is required with a bootstrap key file")
	}
	if err := r.CreateApp(ctx, app, AppChange{}); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("bootstrap: %w", err)
	}
	if keyFile == "" {
		return nil
	}
	secret, err := bootstrapSecret(app, keyFile)
	if err != nil {
		return err
	}
	id := "bootstrap-" + app
	k := StoredKey{
		Key:  Key{ID: id, App: app, Name: "bootstrap", Roles: Admin, CreatedAt: time.Now().UTC().Truncate(time.Millisecond), Prefix: id},
		Hash: sha256.Sum256([]byte(secret)),
	}
	err = r.bootstrapKey(ctx, k)
	if errors.Is(err, ErrExists) { // another node was quicker
		if err = r.Reload(ctx); err == nil {
			err = r.bootstrapKey(ctx, k)
		}
	}
	if err != nil {
		return fmt.Errorf("bootstrap key of app %s: %w", app, err)
	}
	return nil
}

// bootstrapKey creates the key; a former key with another secret is replaced.
func (r *Registry) bootstrapKey(ctx context.Context, k StoredKey) error {
	for _, old := range r.snap.Load().list {
		if old.ID != k.ID || old.App != k.App {
			continue
		}
		if old.Hash == k.Hash {
			return nil
		}
		if err := r.DeleteKey(ctx, k.App, k.ID); err != nil {
			return err
		}
	}
	if err := r.store.CreateKey(ctx, k); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "API key created", "app", k.App, "key", k.ID, "roles", k.Roles.String())
	return r.Reload(ctx)
}

func bootstrapSecret(app, file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read bootstrap key: %w", err)
	}
	secret := textfile.Plain(b)
	if secret == "" {
		_, secret = newKey(app, "", Admin, time.Time{})
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("write bootstrap key: %w", err)
		}
	}
	if len(secret) < minBootstrapKey || strings.ContainsAny(secret, " \t\r\n") {
		return "", fmt.Errorf("bootstrap key in %s must be one word of at least %d random characters", file, minBootstrapKey)
	}
	return secret, nil
}
