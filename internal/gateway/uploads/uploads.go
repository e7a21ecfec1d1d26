// Package uploads keeps bodies of gateway calls that are too large for a request. The worker gets a signed URL from which it fetches the
// body, and the body is deleted when it is old. Bodies lie in a folder, or in a bucket of an S3-compatible store.
package uploads

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/server/problem"
)

// Limits.
const (
	maxReference = 7 * 24 * time.Hour // the longest validity of a signed URL, which is S3's
	sweepEvery   = time.Hour
	dropWithin   = 30 * time.Second
)

// Headers that give a worker the reference. Callers cannot set them.
const (
	headURL     = "Godwit-Upload-Url"
	headSize    = "Godwit-Upload-Size"
	headSum     = "Godwit-Upload-Sha256"
	headExpires = "Godwit-Upload-Expires"
)

// Place is where bodies are kept: a Folder or a Bucket.
type Place interface {
	// Put keeps a body of size bytes, or of an unknown number if size is -1. A body that fails leaves nothing behind.
	Put(ctx context.Context, app, id string, size int64, body io.Reader) error
	// URL returns a signed URL of a body that is valid until a time.
	URL(app, id string, until time.Time) (string, error)
	Delete(ctx context.Context, app, id string) error
	// Sweep deletes bodies that are older than the place keeps them, or makes sure that the place itself does.
	Sweep(ctx context.Context, now time.Time) error
	// EraseApp deletes all bodies of an app.
	EraseApp(ctx context.Context, app string) error
}

// Config holds the parts of a Store.
type Config struct {
	Place Place
	Max   int64         // most bytes of a body
	Keep  time.Duration // age at which bodies are deleted
	Now   func() time.Time
	Log   *slog.Logger
}

// Store keeps bodies and hands out references to them.
type Store struct {
	Config
	metrics metrics
}

// New makes a Store.
func New(cfg Config) *Store { return &Store{Config: cfg, metrics: newMetrics()} }

// Run deletes old bodies until ctx ends. Its error is always nil.
func (s *Store) Run(ctx context.Context) error {
	for {
		if err := s.Place.Sweep(ctx, s.Now()); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "old uploads could not be deleted", "error", err)
		}
		if !pause.For(ctx, sweepEvery) {
			return nil
		}
	}
}

// Put keeps a body. It returns the headers that give a worker the reference, and the function that deletes the body if no worker got it.
// size is -1 if it is unknown.
func (s *Store) Put(ctx context.Context, app string, size int64, body io.Reader) (headers map[string][]string, drop func(), err error) {
	defer func() { s.metrics.ended(err) }()
	if size > s.Max {
		return nil, nil, s.tooLarge()
	}
	id, sum := rand.Text(), sha256.New()
	in := &limited{from: body, left: s.Max, over: s.tooLarge()}
	if err := s.Place.Put(ctx, app, id, size, io.TeeReader(in, sum)); err != nil {
		if in.failed != nil { // explains the place's own error
			return nil, nil, in.failed
		}
		if told := (*problem.Problem)(nil); !errors.As(err, &told) && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "an upload could not be kept", "app", app, "error", err)
			err = problem.Unavailable.With("the place where uploads are kept cannot be used now")
		}
		return nil, nil, err
	}
	s.metrics.bytes.Add(float64(s.Max - in.left))
	until := s.Now().Add(min(s.Keep, maxReference)).Truncate(time.Second)
	url, err := s.Place.URL(app, id, until)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the URL of an upload: %w", err)
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWithin)
		defer cancel()
		if err := s.Place.Delete(ctx, app, id); err != nil {
			s.Log.WarnContext(ctx, "upload that no worker got could not be deleted before its time", "app", app, "error", err)
		}
	}
	return map[string][]string{
		headURL: {url}, headSize: {strconv.FormatInt(s.Max-in.left, 10)}, headSum: {hex.EncodeToString(sum.Sum(nil))},
		headExpires: {until.UTC().Format(time.RFC3339)},
	}, drop, nil
}

func (s *Store) tooLarge() error {
	return problem.TooLarge.Withf("an upload through the gateway has at most %d bytes: uploads_max", s.Max)
}

// limited reads a caller's body up to a number of bytes, and notes why it ended early.
type limited struct {
	from   io.Reader
	left   int64
	over   error // the error of a longer body
	failed error
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.from.Read(p)
	if int64(n) > l.left {
		l.failed = l.over
		return 0, l.over
	}
	l.left -= int64(n)
	if err != nil && err != io.EOF {
		l.failed = problem.BodyIncomplete.New()
		err = l.failed
	}
	return n, err
}
