package faults

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestFullDiskPutsPushMessagesOff fills the disk of a push service: senders get 503 with Retry-After, and earlier messages arrive.
func TestFullDiskPutsPushMessagesOff(t *testing.T) {
	disk := blackbox.Disk(t, "64m", "")
	server := blackbox.Start(t, blackbox.In(filepath.Join(disk, "data")), blackbox.Dev(), blackbox.Args("--push-service", "--min-free", "8MB"))
	var d blackbox.PushDevice
	if err := d.Connect(t.Context(), server.HTTP); err != nil {
		t.Fatal(err)
	}
	endpoint, err := d.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	d.Cut()
	if err := sendPush(t.Context(), endpoint, "before"); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(disk, "fill")
	blackbox.Fill(t, fill)
	blackbox.Eventually(t, "messages are put off", func() error {
		status, after, err := tryPush(t.Context(), endpoint)
		if err == nil && (status != http.StatusServiceUnavailable || after == "") {
			err = fmt.Errorf("answered with %d and Retry-After %q", status, after)
		}
		return err
	})
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "messages are taken again", func() error { return sendPush(t.Context(), endpoint, "after") })
	if err := d.Connect(t.Context(), server.HTTP); err != nil {
		t.Fatal(err)
	}
	defer d.Cut()
	for want := "before"; ; {
		f, err := d.Next(t.Context())
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		body, _ := base64.RawURLEncoding.DecodeString(f.Data)
		switch string(body) {
		case want:
			if want == "after" {
				return
			}
			want = "after"
		case "during": // it was taken before the disk was full
		default:
			t.Fatalf("%s came, want %s", body, want)
		}
	}
}

// tryPush sends a message, and returns the status and Retry-After of the answer.
func tryPush(ctx context.Context, endpoint string) (status int, after string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader("during"))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("TTL", "3600")
	req.Header.Set("Content-Encoding", "aes128gcm")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After"), nil
}
