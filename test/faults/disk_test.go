package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/test/blackbox"

	"golang.org/x/sys/unix"
)

func free(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize)
}

// TestFullDiskRefusesPublishesAndHeals fills the disk to the last byte under a busy server.
func TestFullDiskRefusesPublishesAndHeals(t *testing.T) {
	blackbox.Long(t)
	disk := blackbox.Disk(t, "300m", "")
	server := blackbox.Start(t, blackbox.Dev(), blackbox.In(filepath.Join(disk, "data")), blackbox.Args("--min-free", "16MB", "--ballast", "8MB"))
	api := server.API()
	ctx, cancel := context.WithTimeout(t.Context(), 2*blackbox.Patience)
	defer cancel()

	const held = 200
	body := string(bytes.Repeat([]byte("x"), 2000))
	for i := range held {
		publish(ctx, t, api, "holder", fmt.Sprintf("held-%d", i), body, "10m")
	}
	for i := range 20 {
		publish(ctx, t, api, "absent", fmt.Sprintf("brief-%d", i), body, "3s")
	}
	holder, err := server.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: "holder", Window: held})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Cut()

	filler := filepath.Join(disk, "filler")
	blackbox.Fill(t, filler)
	blackbox.Eventually(t, "a full disk refuses publishes", func() error { return refused(ctx, api) })
	blackbox.Fill(t, filler) // also fill the space of the ballast that the server has deleted
	if err := refused(ctx, api); err != nil {
		t.Fatal(err)
	}
	t.Logf("free while full: %d bytes", free(t, disk))

	for range held {
		n, err := blackbox.NextNotification(ctx, holder)
		if err != nil {
			t.Fatal("delivery while the disk is full:", err)
		}
		if err := holder.Ack(ctx, n.ID); err != nil {
			t.Fatal("acknowledge while the disk is full:", err)
		}
	}
	for i := range held {
		blackbox.Eventually(t, "acknowledged while the disk is full", func() error {
			return api.WantState(ctx, fmt.Sprintf("held-%d", i), "holder", "acked")
		})
	}
	for i := range 20 {
		blackbox.Eventually(t, "expired while the disk is full", func() error {
			return api.WantState(ctx, fmt.Sprintf("brief-%d", i), "absent", "expired")
		})
	}
	if answer, err := api.Do(ctx, http.MethodGet, "/healthz", nil); err != nil || answer.Status != http.StatusOK {
		t.Errorf("/healthz while the disk is full: %v %v", answer, err)
	}
	if answer, err := api.Do(ctx, http.MethodGet, "/readyz", nil); err != nil || answer.Status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the disk is full should be 503: %v %v", answer, err)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "publishing again once there is space", func() error {
		return api.Publish(ctx, map[string]any{"to": "holder", "id": "after", "title": "space again"})
	})
	n, err := blackbox.NextNotification(ctx, holder)
	if err != nil || n.ID != "after" {
		t.Fatalf("after the disk was full: %+v %v", n, err)
	}
	if server.Exited() {
		t.Error("the server did not survive")
	}
}

func publish(ctx context.Context, t *testing.T, api *blackbox.API, to, id, body, ttl string) {
	t.Helper()
	if err := api.Publish(ctx, map[string]any{"to": to, "id": id, "body": body, "ttl": ttl}); err != nil {
		t.Fatal(err)
	}
}

// refused returns nil if a publish is refused with the error for a full disk.
func refused(ctx context.Context, api *blackbox.API) error {
	answer, err := api.Do(ctx, http.MethodPost, "/v1/notifications", map[string]any{"to": "nobody", "title": "one too many"})
	if err != nil {
		return err
	}
	p := answer.Problem()
	if answer.Status != http.StatusServiceUnavailable || p.Status != http.StatusServiceUnavailable || p.Detail == "" {
		return fmt.Errorf("publish on a full disk: %d %s", answer.Status, answer.Body)
	}
	if answer.Header.Get("Retry-After") == "" {
		return errors.New("the refusal has no Retry-After")
	}
	return nil
}
