package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
)

// onDisk is a server on a disk that can be made to fail.
type onDisk struct {
	*testing.T
	vfs   *faultvfs.VFS
	cfg   *config.Config
	url   string
	stop  context.CancelFunc
	ended chan error
	kept  []string // ids of the publishes that the server answered with 201
	next  int
}

func startOnDisk(t *testing.T) *onDisk {
	d := &onDisk{T: t, vfs: faultvfs.New(t), cfg: settings(t), ended: make(chan error, 1)}
	a, err := app.Start(t.Context(), d.cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "test", VFS: d.vfs.Name()})
	if err != nil {
		t.Fatal(err)
	}
	d.url = "http://" + a.Addresses().HTTP
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go func() { d.ended <- a.Run(ctx) }()
	return d
}

// publish reports whether the server answered that the publish is stored.
func (d *onDisk) publish() bool {
	d.Helper()
	d.next++
	id := fmt.Sprint("n", d.next)
	status, answer, _ := ask(d.T, http.MethodPost, d.url+"/v1/notifications", fmt.Sprintf(`{"to":"anna","id":%q,"title":"Hi"}`, id))
	switch {
	case status == http.StatusCreated:
		d.kept = append(d.kept, id)
	case status < http.StatusInternalServerError || !strings.Contains(answer, `"type":`):
		d.Errorf("publishing answers %d: %s", status, answer)
	}
	return status == http.StatusCreated
}

// checkKept fails if a server lacks a notification whose publish was answered with 201.
func (d *onDisk) checkKept(url string) {
	d.Helper()
	for _, id := range d.kept {
		if status, answer, _ := ask(d.T, http.MethodGet, url+"/v1/notifications/"+id, ""); status != http.StatusOK {
			d.Errorf("%s was acknowledged and is lost: %d %s", id, status, answer)
		}
	}
}

func TestAFailedSyncEndsTheServerAndLosesNothingAnswered(t *testing.T) {
	d := startOnDisk(t)
	defer d.stop()
	for range 5 {
		if !d.publish() {
			t.Fatal("a sound disk is refused")
		}
	}
	d.vfs.FailSyncs(true)
	if d.publish() {
		t.Error("what is not synced was acknowledged")
	}
	if err := <-d.ended; err == nil || !strings.Contains(err.Error(), "did not confirm a write") {
		t.Errorf("the server ended with %v, want it to say that the disk confirmed nothing", err)
	}
	d.vfs.FailSyncs(false)
	again := settings(t)
	if err := d.vfs.PowerCut(filepath.Join(d.cfg.Data, store.MailboxFile), filepath.Join(again.Data, store.MailboxFile)); err != nil {
		t.Fatal(err)
	}
	// The server creates the other files again: only this one belongs to the store so far.
	b, err := os.ReadFile(filepath.Join(d.cfg.Data, store.ManifestFile))
	var m map[string]any
	if err = errors.Join(err, json.Unmarshal(b, &m)); err != nil {
		t.Fatal(err)
	}
	m["files"] = []string{store.MailboxFile}
	b, err = json.Marshal(m)
	if err = errors.Join(err, os.WriteFile(filepath.Join(again.Data, store.ManifestFile), b, 0o600)); err != nil {
		t.Fatal(err)
	}
	d.checkKept("http://" + start(t, again).Addresses().HTTP)
}

func TestAWriteErrorRefusesAndHeals(t *testing.T) {
	d := startOnDisk(t)
	for range 5 {
		d.publish()
	}
	d.vfs.FailWrites(true)
	for range 3 {
		if d.publish() {
			t.Error("what could not be written was acknowledged")
		}
	}
	d.vfs.FailWrites(false)
	select {
	case err := <-d.ended: // loudly is fine too
		if err == nil {
			t.Error("the server ended without a word")
		}
	default:
		if !d.publish() {
			t.Error("the disk has healed, the server has not")
		}
		d.checkKept(d.url)
		d.stop()
		if err := <-d.ended; err != nil {
			t.Errorf("stopped with %v", err)
		}
	}
	d.stop()
	again := settings(t)
	again.Data = d.cfg.Data
	d.checkKept("http://" + start(t, again).Addresses().HTTP)
}
