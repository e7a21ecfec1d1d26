package foreign

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"

	"godwit.dev/godwit/internal/gateway/uploads"
	"godwit.dev/godwit/test/blackbox"
)

const (
	bucketKey    = "AKIDEXAMPLE"
	bucketSecret = "bucket-secret-of-the-test"
)

// startS3 starts moto's S3 in a process of its own and returns its address.
func startS3(t *testing.T) string {
	t.Helper()
	if exec.Command(python(t), "-c", "import moto.server").Run() != nil {
		blackbox.Skip(t, "the Python package moto is not installed: run make test-tools")
	}
	address := blackbox.Free(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), "-m", "moto.server", "-H", host, "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	blackbox.Eventually(t, "the S3 server listens", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return address
}

// TestUploadsReachWorkersByABucket: bodies go to a bucket of a real S3 server, a NATS worker fetches them there with nothing but the URL, and
// the bucket's rule deletes them, beside a rule of others.
func TestUploadsReachWorkersByABucket(t *testing.T) {
	t.Parallel()
	address, ctx := startS3(t), timeout(t)
	client, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(bucketKey, bucketSecret, ""), Region: "eu-north-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(ctx, "files", minio.MakeBucketOptions{Region: "eu-north-1"}); err != nil {
		t.Fatal(err)
	}
	others := lifecycle.NewConfiguration()
	others.Rules = []lifecycle.Rule{{ID: "logs", Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: "logs/"}, Expiration: lifecycle.Expiration{Days: 90}}}
	if err := client.SetBucketLifecycle(ctx, "files", others); err != nil {
		t.Fatal(err)
	}

	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Env("GODWIT_UPLOADS_SECRET="+bucketSecret), blackbox.Args("--nats-addr", "127.0.0.1:0",
		"--uploads", "http://"+address+"/files/gateway", "--uploads-key-id", bucketKey, "--uploads-region", "eu-north-1", "--uploads-days", "3", "--uploads-max", "12MB"))
	references := make(chan string, 8)
	uploadWorker(t, s, references)
	s.API().Call(t, "PUT", "/v1/gateway/files", map[string]any{"upload": "store"}, nil)
	large := bytes.Repeat([]byte("0123456789abcdef"), 11<<16) // 11 MiB: parts of 5
	for name, body := range map[string]func() io.Reader{
		"with a length": func() io.Reader { return bytes.NewReader(large) }, "without one": func() io.Reader { return io.MultiReader(bytes.NewReader(large)) },
	} {
		blackbox.Eventually(t, "the setting holds", func() error {
			if status, answer := upload(ctx, t, s, body(), nil); status != http.StatusOK || answer != wantUpload(large) {
				return fmt.Errorf("%s: %d %s, want %s", name, status, answer, wantUpload(large))
			}
			return nil
		})
		if ref := <-references; !strings.HasPrefix(ref, "http://"+address+"/files/gateway/demo/") || strings.Contains(ref, bucketSecret) || !strings.Contains(ref, "X-Amz-Expires=259") {
			t.Errorf("the reference %s is none of the bucket for three days", ref)
		}
	}
	if status, answer := upload(ctx, t, s, io.MultiReader(bytes.NewReader(large), bytes.NewReader(large)), nil); status != http.StatusRequestEntityTooLarge {
		t.Errorf("one that is too large: %d %s", status, answer)
	}
	if n := objects(ctx, t, client); n != 2 {
		t.Errorf("%d objects are kept, want those of 2 calls", n)
	}
	blackbox.Eventually(t, "the bucket has the rule", func() error {
		rules, err := client.GetBucketLifecycle(ctx, "files")
		if err != nil {
			return err
		}
		if len(rules.Rules) != 2 || rules.Rules[0].ID != "logs" || rules.Rules[0].Expiration.Days != 90 || rules.Rules[1].RuleFilter.Prefix != "gateway/" || rules.Rules[1].Expiration.Days != 3 {
			return fmt.Errorf("the rules are %+v", rules.Rules)
		}
		return nil
	})
	if strings.Contains(s.Log(), bucketSecret) {
		t.Error("the log has the bucket's secret")
	}

	bucket, err := uploads.NewBucket(uploads.BucketConfig{
		URL: "http://" + address + "/files/gateway", KeyID: bucketKey, Secret: bucketSecret, Region: "eu-north-1", Days: 3, Now: time.Now, Transport: http.DefaultTransport,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.EraseApp(ctx, "demo"); err != nil || objects(ctx, t, client) != 0 {
		t.Errorf("after the app is erased %d objects are left, %v", objects(ctx, t, client), err)
	}
	if err := client.RemoveBucket(ctx, "files"); err != nil {
		t.Fatal(err)
	}
	if status, answer := upload(ctx, t, s, bytes.NewReader(large), nil); status != http.StatusServiceUnavailable || strings.Contains(answer, address) {
		t.Errorf("without the bucket: %d %s", status, answer)
	}
}

func objects(ctx context.Context, t *testing.T, client *minio.Client) (n int) {
	t.Helper()
	for o := range client.ListObjects(ctx, "files", minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		n++
	}
	return n
}
