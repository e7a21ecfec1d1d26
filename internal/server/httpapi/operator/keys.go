package operator

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

const maxKeyBody = 4 << 10 // in bytes; the body names a few roles

type keyJSON struct {
	ID         string      `json:"id"`
	App        string      `json:"app"`
	Name       string      `json:"name"`
	Prefix     string      `json:"prefix"`
	Roles      []string    `json:"roles"`
	CreatedAt  call.Moment `json:"created_at"`
	LastUsedAt call.Moment `json:"last_used_at"`
	// Key is the secret, shown once. It is absent when a retry finds the key that its first try created.
	Key       *string `json:"key,omitempty"`
	Duplicate *bool   `json:"duplicate,omitempty"`

	revised // a key never changes, and neither does its revision
}

func viewKey(k access.Key) keyJSON {
	return keyJSON{
		ID: k.ID, App: k.App, Name: k.Name, Prefix: k.Prefix, Roles: k.Roles.Names(), CreatedAt: call.Moment(k.CreatedAt), LastUsedAt: call.Moment(k.LastUsed),
		revised: atRevision(setting.RevisionAt(k.CreatedAt)),
	}
}

// CreateKey is POST /v1/keys.
func (a *API) CreateKey(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxKeyBody)
	if err != nil {
		return err
	}
	name, roles, err := decodeKey(body)
	if err != nil {
		return err
	}
	if idem == "" {
		return a.newKey(c, name, roles, nil)
	}
	entry, done := a.created.enter(c.Key.App, idem, sha256.Sum256(body), time.Now())
	defer done()
	switch {
	case entry.other:
		return problem.IdempotencyMismatch.New()
	case entry.id != nil && *entry.id != "":
		return a.sameKey(c, *entry.id)
	}
	return a.newKey(c, name, roles, entry.id)
}

// newKey creates a key and stores its id in note, for retries.
func (a *API) newKey(c *call.Call, name string, roles access.Role, note *string) error {
	k, secret, err := a.Keys.CreateKey(c.Ctx, c.Key.App, name, roles)
	if err != nil {
		return err
	}
	if note != nil {
		*note = k.ID
	}
	a.Log.InfoContext(c.Ctx, "key created", "app", c.Key.App, "key", k.ID, "roles", roles.String(), "by", c.Key.Key)
	c.Made = k.ID
	v, duplicate := viewKey(k), false
	v.Key, v.Duplicate = &secret, &duplicate
	return c.Value(http.StatusCreated, v)
}

// sameKey answers a retry with the key that the first try created, without its secret, which is not stored.
func (a *API) sameKey(c *call.Call, id string) error {
	k, there := a.keyOf(c, id)
	if !there {
		return problem.NotFound.With("the key that this Idempotency-Key made has been deleted")
	}
	v, duplicate := viewKey(k), true
	v.Duplicate = &duplicate
	return c.Value(http.StatusOK, v)
}

// keyOf returns a key of the caller's app.
func (a *API) keyOf(c *call.Call, id string) (access.Key, bool) {
	keys := a.Keys.Keys(c.Key.App)
	i := slices.IndexFunc(keys, func(k access.Key) bool { return k.ID == id })
	if i < 0 {
		return access.Key{}, false
	}
	return keys[i], true
}

// GetKey is GET /v1/keys/{id}.
func (a *API) GetKey(c *call.Call) error {
	id, err := keyNamed(c)
	if err != nil {
		return err
	}
	k, there := a.keyOf(c, id)
	if !there {
		return access.ErrUnknownKey
	}
	return showRevised(c, http.StatusOK, viewKey(k))
}

// keyNamed returns the id in the path.
func keyNamed(c *call.Call) (string, error) {
	if _, err := c.Params(); err != nil {
		return "", err
	}
	id := c.R.PathValue("id")
	return id, notification.CheckName("id", id)
}

// decodeKey reads {"roles":[…],"name":"…"}. The registry decides which names and roles are valid.
func decodeKey(body []byte) (name string, roles access.Role, err error) {
	var names []string
	err = call.Fields{"roles": call.Texts(&names, 4, notification.CheckName), "name": &name}.Decode(body) // there are no more roles
	if err != nil {
		return "", 0, err
	}
	roles, err = access.ParseRoles(names)
	return name, roles, err
}

// ListKeys is GET /v1/keys. An app has few keys, so the answer is one page.
func (a *API) ListKeys(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	keys := a.Keys.Keys(c.Key.App)
	l := call.NewList[keyJSON](len(keys), "")
	for _, k := range keys {
		l.Items = append(l.Items, viewKey(k))
	}
	return c.Value(http.StatusOK, l)
}

// DeleteKey is DELETE /v1/keys/{id}.
func (a *API) DeleteKey(c *call.Call) error {
	id, err := keyNamed(c)
	if err != nil {
		return err
	}
	must, err := c.Match()
	if err != nil {
		return err
	}
	if k, there := a.keyOf(c, id); there { // the revision stays while the key is there
		if err := must.Check("key "+id, setting.RevisionAt(k.CreatedAt)); err != nil {
			return err
		}
	}
	if err := a.Keys.DeleteKey(c.Ctx, c.Key.App, id); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "key deleted", "app", c.Key.App, "key", id, "by", c.Key.Key)
	return c.NoContent()
}

const (
	createdFor = 24 * time.Hour
	maxCreated = 1000 // people create keys by hand; beyond this number the oldest Idempotency-Key is dropped
)

// createdKeys remembers the key that each Idempotency-Key created.
type createdKeys struct {
	mu      sync.Mutex
	entries map[[2]string]*createdKey // by app and idempotency key
}

type createdKey struct {
	id   string // empty: not made yet
	body [sha256.Size]byte
	at   time.Time
}

// entered is the entry of an Idempotency-Key: the place for the created key's id, or the fact that another body used it.
type entered struct {
	id    *string
	other bool
}

// enter finds or makes the entry of an idempotency key and locks it until done is called, so that two concurrent tries create one key.
func (t *createdKeys) enter(app, idem string, body [sha256.Size]byte, now time.Time) (e entered, done func()) {
	t.mu.Lock()
	if t.entries == nil {
		t.entries = make(map[[2]string]*createdKey)
	}
	t.forget(now)
	at := [2]string{app, idem}
	k := t.entries[at]
	if k == nil {
		k = &createdKey{body: body, at: now}
		t.entries[at] = k
	}
	return entered{id: &k.id, other: k.body != body}, func() {
		if k.id == "" {
			delete(t.entries, at)
		}
		t.mu.Unlock()
	}
}

func (t *createdKeys) forget(now time.Time) {
	var oldest [2]string
	for at, k := range t.entries {
		if now.Sub(k.at) >= createdFor {
			delete(t.entries, at)
		} else if first := t.entries[oldest]; first == nil || k.at.Before(first.at) {
			oldest = at
		}
	}
	if len(t.entries) >= maxCreated {
		delete(t.entries, oldest)
	}
}
