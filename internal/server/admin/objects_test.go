package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/server/admin"
)

// fleet is group north of app shop with object camera at version 7: unit-1 has that version, unit-2 an older one.
type fleet struct{}

func (fleet) state() object.State {
	return object.State{Version: 7, Known: true, Payload: []byte(hostile), ContentType: "text/plain", Origin: object.Origin{Recipient: hostile}, UpdatedAt: time.Now()}
}

func (f fleet) Get(_ context.Context, app string, k object.Key) (object.State, bool, error) {
	if app != "shop" || k.Object != "camera" {
		return object.State{}, false, nil
	}
	return f.state(), true, nil
}

func (f fleet) List(_ context.Context, app, group, prefix, after string, _ int) ([]objectstore.Item, string, error) {
	if app != "shop" || group != "north" || !strings.HasPrefix("camera", prefix) || after != "" {
		return nil, "", nil
	}
	return []objectstore.Item{{Key: object.Key{Group: "north", Object: "camera"}, State: f.state()}}, "camera", nil
}

func (fleet) Groups(_ context.Context, app, after string, _ int) ([]string, string, error) {
	if app != "shop" || after != "" {
		return nil, "", nil
	}
	return []string{"north"}, "north", nil
}

func (fleet) Watching(_ context.Context, _ string, _ object.Key, after int64, _ int) ([]signal.Registration, bool, int64, error) {
	if after > 0 {
		return nil, false, 0, nil
	}
	return []signal.Registration{
		{Recipient: "unit-1", Device: hostile, Online: true, SentVersion: 7, Acked: 7, LastSeen: time.Now()},
		{Recipient: "unit-2", SentVersion: 7, Acked: 6},
		{Recipient: "unit-3"},
	}, true, 9, nil
}

func newFleet(t *testing.T) *browser {
	return newWorld(t, func(c *admin.Config) { c.Objects = fleet{} }).signedIn()
}

func TestObjectsAreFoundByGroupAndName(t *testing.T) {
	b := newFleet(t)
	_, page := b.get("/ui/objects")
	wants(t, page, `href="/ui/objects?group=north"`, "cursor=north")
	_, page = b.get("/ui/objects?group=north&prefix=cam")
	checkHarmless(t, "list", page)
	wants(t, page, `href="/ui/objects/north/camera"`, "cursor=camera&amp;group=north&amp;prefix=cam")
	_, page = b.get("/ui/objects?group=north&prefix=dog")
	wants(t, page, "There is none in group <code>north</code> whose name begins with <code>dog</code>")
	_, page = b.get("/ui/objects?group=" + url.QueryEscape(hostile))
	checkHarmless(t, "group", page)
	wants(t, page, "&lt;hostile")
}

func TestAnObjectsPageSaysWhoHasItsVersion(t *testing.T) {
	b := newFleet(t)
	_, page := b.get("/ui/objects/north/camera")
	checkHarmless(t, "object", page)
	wants(t, page, `<data value="1">1</data></b><span>have it`, `<data value="2">2</data></b><span>lag behind`, "unit-1", "unit-2", "unit-3", "There are more than are shown", "cursor=9", "&lt;hostile")
	for query, want := range map[string][]bool{"only=behind": {false, true, true}, "version=6": {false, true, false}, "version=7": {true, false, false}, "only=behind&version=7": {false, false, false}} {
		_, page := b.get("/ui/objects/north/camera?" + query)
		for i, unit := range []string{"unit-1", "unit-2", "unit-3"} {
			if strings.Contains(page, unit) != want[i] {
				t.Errorf("%s: %s is listed: %v", query, unit, !want[i])
			}
		}
	}
	_, page = b.get("/ui/objects/north/camera?version=" + url.QueryEscape(hostile) + "&only=" + url.QueryEscape(hostile) + "&cursor=" + url.QueryEscape(hostile))
	checkHarmless(t, "query", page)
	for _, path := range []string{"/ui/objects/north/dog", "/ui/objects/" + url.PathEscape(hostile) + "/x"} {
		status, page := b.get(path)
		if checkHarmless(t, path, page); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// unread is a fleet whose store fails on every read.
type unread struct{ fleet }

func (unread) Groups(context.Context, string, string, int) ([]string, string, error) {
	return nil, "", errors.New("the disk is gone")
}

func (unread) List(context.Context, string, string, string, string, int) ([]objectstore.Item, string, error) {
	return nil, "", errors.New("the disk is gone")
}

func TestObjectsThatCannotBeReadAreNotSaidToBeNone(t *testing.T) {
	b := newWorld(t, func(c *admin.Config) { c.Objects = unread{} }).signedIn()
	for _, path := range []string{"/ui/objects", "/ui/objects?group=north"} {
		status, page := b.get(path)
		if wants(t, page, "Something went wrong on the server"); status != http.StatusInternalServerError {
			t.Errorf("%s: %d", path, status)
		}
	}
}
