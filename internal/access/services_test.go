package access_test

import (
	"errors"
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestServicesOfAnAppAreBoundedAndItsOwn(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	set := func(app, name string) error {
		_, err := w.SetService(t.Context(), app, name, access.Service{Access: "public"}, setting.Match{})
		return err
	}
	for i := range 256 {
		if err := set("shop", fmt.Sprint("s", i)); err != nil {
			t.Fatal(err)
		}
	}
	var f *notification.FieldError
	if err := set("shop", "more"); !errors.As(err, &f) || f.Field != "service" {
		t.Errorf("one more than may be: %v", err)
	}
	for what, err := range map[string]error{"one that is there": set("shop", "s7"), "another app's": set("other", "more")} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantErr(t, w.DeleteService(t.Context(), "other", "s7", setting.Match{}), access.ErrUnknownService)
	wantErr(t, set("nobody", "s"), access.ErrUnknownApp)
	if err := w.DeleteService(t.Context(), "shop", "s7", setting.Match{}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, w.DeleteService(t.Context(), "shop", "s7", setting.Match{}), access.ErrUnknownService)
	if err := set("shop", "more"); err != nil {
		t.Errorf("in the place of a deleted one: %v", err)
	}
}
