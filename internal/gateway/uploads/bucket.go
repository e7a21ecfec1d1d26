package uploads

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/foreign"
)

const (
	usualPrefix = "godwit-uploads"  // of bodies in a bucket whose URL names none: the bucket's rule must not delete what others keep there
	ruleName    = "godwit-uploads " // begins the name of this server's rule; the prefix follows
	partBytes   = 5 << 20           // S3's smallest part: a body of unknown length takes as much memory
	pathTime    = time.Minute       // limits the requests about a bucket's rules
)

// Bucket keeps bodies in a bucket of an S3-compatible store, below a prefix. The bucket itself deletes them, by a rule that the server sets.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string // ends with a slash
	days   int
	now    func() time.Time
}

// BucketConfig holds the settings of a Bucket.
type BucketConfig struct {
	URL           string // of the bucket by its path, with or without a prefix: https://s3.example.org/bucket/prefix
	KeyID, Secret string
	Region        string
	Days          int // age at which the bucket deletes bodies
	Now           func() time.Time
	Transport     http.RoundTripper
}

var _ Place = (*Bucket)(nil)

// NewBucket makes a Bucket. It sends nothing.
func NewBucket(cfg BucketConfig) (*Bucket, error) {
	u, err := urlguard.All.ParseBase(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the bucket for uploads: %w", err)
	}
	name, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if prefix == "" {
		prefix = usualPrefix
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(cfg.KeyID, cfg.Secret, ""), Secure: u.Scheme == "https", Region: cfg.Region, Transport: cfg.Transport,
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return nil, fmt.Errorf("use the bucket for uploads: %w", err)
	}
	return &Bucket{client: client, name: name, prefix: prefix + "/", days: cfg.Days, now: cfg.Now}, nil
}

func (b *Bucket) key(app, id string) string { return b.prefix + app + "/" + id }

// Put implements Place.
func (b *Bucket) Put(ctx context.Context, app, id string, size int64, body io.Reader) error {
	_, err := b.client.PutObject(ctx, b.name, b.key(app, id), body, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", // whatever the caller says of it: a browser must not show it
		PartSize:    partBytes, NumThreads: 1,
	})
	return told("keep an upload", err)
}

// URL implements Place.
func (b *Bucket) URL(app, id string, until time.Time) (string, error) {
	u, err := b.client.PresignedGetObject(context.Background(), b.name, b.key(app, id), until.Sub(b.now()), nil)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// Delete implements Place.
func (b *Bucket) Delete(ctx context.Context, app, id string) error {
	return told("delete an upload", b.client.RemoveObject(ctx, b.name, b.key(app, id), minio.RemoveObjectOptions{}))
}

// Sweep implements Place: it makes sure that the bucket has the rule that deletes old bodies, beside others' rules.
func (b *Bucket) Sweep(ctx context.Context, _ time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, pathTime)
	defer cancel()
	rules, err := b.client.GetBucketLifecycle(ctx, b.name)
	if err != nil && minio.ToErrorResponse(err).Code != "NoSuchLifecycleConfiguration" {
		return told("read the bucket's rules", err)
	}
	if rules == nil {
		rules = lifecycle.NewConfiguration()
	}
	ours := lifecycle.Rule{
		ID: ruleName + b.prefix, Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: b.prefix},
		Expiration:                     lifecycle.Expiration{Days: lifecycle.ExpirationDays(b.days)},
		AbortIncompleteMultipartUpload: lifecycle.AbortIncompleteMultipartUpload{DaysAfterInitiation: 1},
	}
	kept := lifecycle.NewConfiguration()
	for _, r := range rules.Rules {
		if r.ID != ours.ID {
			kept.Rules = append(kept.Rules, r)
		} else if r.Status == ours.Status && r.Expiration.Days == ours.Expiration.Days {
			return nil
		}
	}
	kept.Rules = append(kept.Rules, ours)
	return told("set the rule by which the bucket deletes old uploads", b.client.SetBucketLifecycle(ctx, b.name, kept))
}

// EraseApp implements Place.
func (b *Bucket) EraseApp(ctx context.Context, app string) error {
	ctx, cancel := context.WithCancel(ctx) // ends the list if a deletion fails
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.key(app, ""), Recursive: true}) {
		err := o.Err
		if err == nil {
			err = b.client.RemoveObject(ctx, b.name, o.Key, minio.RemoveObjectOptions{})
		}
		if err != nil {
			return told("delete an app's uploads", err)
		}
	}
	return nil
}

// told returns an error without the store's own text, which may repeat what was sent: S3's code, like NoSuchBucket, says enough.
func told(what string, err error) error {
	if err == nil {
		return nil
	}
	if code := minio.ToErrorResponse(err).Code; code != "" {
		return fmt.Errorf("%s: the bucket answered %.64q", what, code)
	}
	return fmt.Errorf("%s: the bucket cannot be reached: %s", what, foreign.Cause(err))
}
