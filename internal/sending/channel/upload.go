package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// maxFileName limits a file's name, in bytes: what file systems allow.
const maxFileName = 255

// TooLargeError says that a file is larger than its provider takes.
type TooLargeError struct{ Most int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("the file has more than %d bytes", e.Most) }

// Upload checks a file for a provider, and returns the function that gives it to the provider and returns its id. The provider needs an
// address. The size of the file may be unknown (-1). Bad input is a *notification.FieldError or a *TooLargeError.
func (s *Service) Upload(ctx context.Context, app string, ch push.Channel, address json.RawMessage, f *push.File) (give func(context.Context) (id string, err error), err error) {
	sender, err := s.Sender(ctx, app, ch)
	if err != nil {
		return nil, err
	}
	up, ok := sender.(push.Uploader)
	if !ok {
		return nil, notification.BadField("channel", "%s takes no files", ch)
	}
	most, err := checkFile(up, address, f)
	if err != nil {
		s.uploads.ended(ch, "refused")
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		in := &limited{from: f.Body, most: most}
		limitedFile := *f
		limitedFile.Body = in
		id, err := up.Upload(ctx, address, &limitedFile)
		if errors.Is(in.failed, errTooLong) {
			s.uploads.ended(ch, "refused")
			return "", &push.PermanentError{Reason: (&TooLargeError{most}).Error()}
		}
		s.uploads.ended(ch, push.Outcome(err))
		if err == nil {
			s.uploads.bytes.WithLabelValues(string(ch)).Add(float64(in.n))
		}
		return id, err
	}, nil
}

// checkFile returns the most bytes that a file may have.
func checkFile(up push.Uploader, address json.RawMessage, f *push.File) (most int64, err error) {
	most = up.MaxFile(f.Type)
	switch {
	case most == 0:
		return 0, notification.BadField("type", "%.40q is no kind of file of this channel", f.Type)
	case f.Name == "" || len(f.Name) > maxFileName || !utf8.ValidString(f.Name) || strings.ContainsAny(f.Name, "/\\\r\n\x00"):
		return 0, notification.BadField("name", "must be the file's name, of at most %d bytes and without a path", maxFileName)
	case !json.Valid(address):
		return 0, notification.BadField("address", `must be the address of a chat, like {"chat_id":42}`)
	case f.Size == 0:
		return 0, notification.BadField("body", "the file is empty")
	case f.Size > most:
		return 0, &TooLargeError{most}
	}
	return most, nil
}

var errTooLong = errors.New("the file is too long")

// limited reads a file up to a number of bytes.
type limited struct {
	from    io.Reader
	n, most int64
	failed  error
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	if l.n += int64(n); l.n > l.most {
		l.failed = errTooLong
		return 0, errTooLong
	}
	return n, err
}

// uploads count files by channel and outcome, and the bytes of those that providers took.
type uploads struct {
	files *prometheus.CounterVec
	bytes *prometheus.CounterVec
}

func newUploads() uploads {
	return uploads{
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_uploads_total", Help: "Files for providers since start, by channel and outcome. refused: no such file is taken.",
		}, []string{"channel", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_upload_bytes_total", Help: "Bytes of files that providers took since start, by channel.",
		}, []string{"channel"}),
	}
}

func (u *uploads) ended(ch push.Channel, outcome string) {
	u.files.WithLabelValues(string(ch), outcome).Inc()
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(descs chan<- *prometheus.Desc) {
	s.uploads.files.Describe(descs)
	s.uploads.bytes.Describe(descs)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(values chan<- prometheus.Metric) {
	s.uploads.files.Collect(values)
	s.uploads.bytes.Collect(values)
}
