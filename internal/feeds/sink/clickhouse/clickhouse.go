// Package clickhouse writes events to ClickHouse over its HTTP interface: compressed batches of JSON lines, each with a token by which
// ClickHouse skips a batch that it has already stored.
package clickhouse

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/sending/foreign"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// AnswerWithin is how long ClickHouse may take to answer: when it is far behind, it merges before it answers.
	AnswerWithin = 60 * time.Second

	maxAnswer = 64 << 10 // most bytes that are read of an answer

	zipAtOnce = 32 << 10 // bytes of rows that are handed to the compressor at once
)

// Config says where ClickHouse is.
type Config struct {
	URL            string
	Database       string
	User, Password string // both may be empty
	Keep           time.Duration
	Client         *http.Client
}

// Writer is a sink.Writer. One goroutine at a time may use it.
type Writer struct {
	cfg   Config
	ready bool // the schema is there

	lines []byte       // some rows, to be compressed
	body  bytes.Buffer // all of them, compressed
	zip   *gzip.Writer
}

var _ sink.Writer = (*Writer)(nil)

// New makes a Writer. It connects when the first batch is written.
func New(cfg Config) *Writer { return &Writer{cfg: cfg} }

// Write implements sink.Writer. It replaces invalid bytes in texts that are not valid UTF-8, so that no event blocks the others.
func (w *Writer) Write(ctx context.Context, evs []event.Event) error {
	if len(evs) == 0 {
		return nil
	}
	if !w.ready {
		if err := w.makeSchema(ctx); err != nil {
			return err
		}
		w.ready = true
	}
	if err := w.encode(evs); err != nil {
		return &sink.StopError{Reason: fmt.Sprintf("encode events: %v", err)}
	}
	first, last := &evs[0], &evs[len(evs)-1]
	answer, err := w.send(ctx, "INSERT INTO "+quoted(w.cfg.Database)+".event FORMAT JSONEachRow", url.Values{
		"insert_deduplication_token": {fmt.Sprintf("%s-%d-%d", first.App, first.ID, last.ID)},
		"insert_deduplicate":         {"1"}, "async_insert": {"0"}, "deduplicate_blocks_in_dependent_materialized_views": {"1"},
		"date_time_input_format": {"best_effort"}, "input_format_skip_unknown_fields": {"1"},
		"max_insert_block_size": {strconv.Itoa(1 << 20)}, // a batch is one block, because the token covers the whole batch
	}, w.body.Bytes())
	if said := strings.TrimSpace(answer); err == nil && strings.Trim(said, "0123456789") != "" { // an insert returns nothing, or the number of rows
		plain := "ClickHouse answered an insert with words: something else may answer in its place"
		err = &push.RetryError{Reason: plain + ": " + w.excerpt(said), Plain: plain}
	}
	var stop *sink.StopError
	if errors.As(err, &stop) {
		w.ready = false // the tables may have been dropped
	}
	return err
}

// encode writes a batch as lines, compressed.
func (w *Writer) encode(evs []event.Event) error {
	w.body.Reset()
	if w.zip == nil {
		w.zip, _ = gzip.NewWriterLevel(&w.body, gzip.BestSpeed) // fails only for unknown levels
	} else {
		w.zip.Reset(&w.body)
	}
	lines, now := w.lines[:0], second{}
	for i := range evs {
		lines = appendRow(lines, &evs[i], &now)
		if len(lines) >= zipAtOnce || i == len(evs)-1 {
			if _, err := w.zip.Write(lines); err != nil {
				return err
			}
			lines = lines[:0]
		}
	}
	w.lines = lines
	return w.zip.Close()
}

// makeSchema creates the parts of the schema that the database lacks. If none is missing, it needs no right to create anything.
func (w *Writer) makeSchema(ctx context.Context) error {
	db := quoted(w.cfg.Database)
	answer, err := w.send(ctx, fmt.Sprintf(readVersion, db), nil, nil)
	var missing *sink.StopError
	if errors.As(err, &missing) {
		for _, s := range []string{fmt.Sprintf(makeDatabase, db), fmt.Sprintf(makeVersions, db)} {
			if _, err := w.send(ctx, s, nil, nil); err != nil {
				return err
			}
		}
		answer, err = w.send(ctx, fmt.Sprintf(readVersion, db), nil, nil)
	}
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(strings.TrimSpace(answer))
	switch {
	case err != nil:
		return &sink.StopError{Reason: fmt.Sprintf("the schema's version is %q: is this ClickHouse?", w.excerpt(answer)), Plain: "the schema's version is no number: is this ClickHouse?"}
	case version > schemaVersion:
		return &sink.StopError{Reason: fmt.Sprintf("the tables of database %s are of version %d, made by a newer server; this one knows %d", w.cfg.Database, version, schemaVersion)}
	}
	for ; version < schemaVersion; version++ {
		for _, s := range upgrade(version, w.cfg.Database, w.cfg.Keep) {
			if _, err := w.send(ctx, s, nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// send makes one request. If there is a body, which must be compressed, the statement is in the URL's query; otherwise the statement is the
// body.
func (w *Writer) send(ctx context.Context, statement string, settings url.Values, body []byte) (answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, AnswerWithin, fmt.Errorf("ClickHouse did not answer within %s", AnswerWithin))
	defer cancel()
	address, err := url.Parse(w.cfg.URL)
	if err != nil {
		return "", &sink.StopError{Reason: "its url is none"} // the URL was checked when the sink was set
	}
	query := address.Query()
	for name, values := range settings {
		query[name] = values
	}
	query.Set("wait_end_of_query", "1") // ClickHouse sends the status only after the statement has ended
	var from io.Reader = strings.NewReader(statement)
	if body != nil {
		query.Set("query", statement)
		from = bytes.NewReader(body)
	}
	address.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), from)
	if err != nil {
		return "", &sink.StopError{Reason: "its url is none"}
	}
	if body != nil {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if w.cfg.User != "" {
		req.Header.Set("X-ClickHouse-User", w.cfg.User)
		req.Header.Set("X-ClickHouse-Key", w.cfg.Password)
	}
	resp, err := w.cfg.Client.Do(req)
	if err != nil {
		return "", unreached("ClickHouse cannot be reached: " + cause(ctx, err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return "", unreached("ClickHouse broke off its answer: " + cause(ctx, err))
	}
	return string(b), w.judge(resp, b)
}

// cause describes an error of the HTTP client.
func cause(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	return foreign.Cause(err)
}

// judge decides from an answer whether the batch succeeded, is to be tried again, or never will succeed.
func (w *Writer) judge(resp *http.Response, body []byte) error {
	code := resp.Header.Get(exceptionCode)
	if code == "" {
		code = resp.Trailer.Get(exceptionCode)
	}
	late := exception(body)
	switch {
	case resp.StatusCode/100 != 2:
	case code == "" && !late:
		return nil
	default: // the status was sent before the statement failed
		plain := fmt.Sprintf("ClickHouse answered %d, then with an exception", resp.StatusCode)
		return &push.RetryError{Reason: plain + " " + w.excerpt(code+": "+string(body)), Plain: plain}
	}
	plain := fmt.Sprintf("ClickHouse answered %d", resp.StatusCode)
	reason := plain + ": " + w.excerpt(string(body))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &push.RetryError{After: time.Duration(min(max(seconds, 0), 3600)) * time.Second, Reason: reason, Plain: plain}
	}
	return &sink.StopError{Reason: reason, Plain: plain}
}

func unreached(reason string) error { return &push.RetryError{Reason: reason, Plain: reason} }

// exceptionCode is the header, or the trailer, in which ClickHouse reports that a statement failed, whatever the status is.
const exceptionCode = "X-ClickHouse-Exception-Code"

// exceptions matches the beginning of the error that ClickHouse writes into a body when a statement fails after the status was sent: as
// text, after the mark of newer versions, or as a line of JSON.
var exceptions = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(^|__exception__.{0,20})\s*(Code: \d+[.,]|\{"exception":)`)
})

// exception reports whether a body contains an error, or may contain one behind the part that was read. Our statements return a number or
// nothing.
func exception(body []byte) bool {
	return len(body) > maxAnswer || exceptions().Match(body) || bytes.Contains(body, []byte("DB::Exception")) || bytes.Contains(body, []byte("__exception__"))
}

// excerpt is the beginning of an answer, without the secrets sent to ClickHouse.
func (w *Writer) excerpt(said string) string {
	return foreign.Excerpt(said, w.cfg.Password, base64.StdEncoding.EncodeToString([]byte(w.cfg.User+":"+w.cfg.Password)))
}
