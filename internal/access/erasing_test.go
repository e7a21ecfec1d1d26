package access_test

import (
	"errors"
	"testing"

	"godwit.dev/godwit/internal/access"
)

func TestAKeyOfANewAppWaitsForTheErasureOfItsNamesake(t *testing.T) {
	w := newWorld(t, access.Config{Serves: true}, "shop")
	old := w.key(t, "shop", access.Publish)
	if err := w.DeleteApp(t.Context(), "shop", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.CreateApp(t.Context(), "shop", access.AppChange{}); err != nil {
		t.Fatal(err)
	}
	key := w.key(t, "shop", access.Publish)
	if _, err := w.Key(t.Context(), key); !errors.Is(err, access.ErrErasing) || !errors.Is(err, access.ErrUnavailable) || errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("meanwhile: %v", err)
	}
	for _, wrong := range []string{old, key + "x"} {
		if _, err := w.Key(t.Context(), wrong); !errors.Is(err, access.ErrUnauthenticated) {
			t.Errorf("a key that is none: %v", err)
		}
	}
	if err := w.AppErased(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Key(t.Context(), key); err != nil || p.App != "shop" {
		t.Errorf("afterwards: %+v, %v", p, err)
	}
}
