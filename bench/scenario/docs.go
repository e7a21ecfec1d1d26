package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Docs measures the documentation that the server has inside: it follows every link below /docs and searches for what the pages are called.
type Docs struct {
	Common
	Searches int
}

// Bounds of a walk through the documentation.
const (
	mostPages    = 5000
	mostPageSize = 4 * mb
)

// Run measures.
func (d *Docs) Run(ctx context.Context) (*report.Result, error) {
	r := d.begin("docs", "The documentation inside the server, one request at a time", set("searches", d.Searches))
	return r, d.runs(ctx, func(ctx context.Context, _ int) error {
		server, err := testbed.StartServer(ctx, d.Testbed.Server)
		if err != nil {
			return err
		}
		defer server.Stop()
		w := &reader{client: &http.Client{Timeout: time.Minute}, base: "http://" + server.HTTP}
		defer w.client.CloseIdleConnections()
		return d.read(ctx, r, w)
	})
}

func (d *Docs) read(ctx context.Context, r *report.Result, w *reader) error {
	first, err := w.walk(ctx)
	if err != nil {
		return err
	}
	const group = "each page"
	r.Add(group, "pages", "", float64(len(w.took)))
	r.Add(group, "bytes", "MB", float64(w.bytes)/mb)
	r.Add(group, "the first after a start, which renders all", "ms", ms(first))
	reportTimes(r, group, w.took)
	took, err := w.search(ctx, d.Searches)
	if err != nil {
		return err
	}
	const searches = "each search"
	r.Add(searches, "searches", "", float64(len(took)))
	reportTimes(r, searches, took)
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func reportTimes(r *report.Result, group string, took []time.Duration) {
	took = slices.Sorted(slices.Values(took))
	n := len(took)
	r.Add(group, "p50", "ms", ms(took[n/2]))
	r.Add(group, "p99", "ms", ms(took[n*99/100]))
	r.Add(group, "max", "ms", ms(took[n-1]))
}

// reader reads a site like somebody who follows every link.
type reader struct {
	client *http.Client
	base   string
	paths  []string // of the pages in the order in which they were found
	took   []time.Duration
	bytes  int64
}

var internalLink = regexp.MustCompile(`href="(/docs[^"#?]*)`)

// tables are the pages whose rows have pages of their own, to which only the search leads.
var tables = map[string]string{"/docs/reference/config": "/docs/settings/", "/docs/reference/metrics": "/docs/metrics/", "/docs/reference/events": "/docs/events/"}

var rowName = regexp.MustCompile(`<tr>\s*<td><code>([\w.]+)</code>`)

// walk reads all pages and returns how long the first one took, which is not among those that took holds.
func (w *reader) walk(ctx context.Context) (first time.Duration, err error) {
	if _, first, err = w.get(ctx, "/docs", nil); err != nil {
		return 0, err
	}
	known, guessed := map[string]bool{"/docs": true}, map[string]bool{}
	for queue := []string{"/docs"}; len(queue) > 0; queue = queue[1:] {
		if len(known) > mostPages {
			return 0, fmt.Errorf("the documentation has more than %d pages: do its links go in circles?", mostPages)
		}
		body, took, err := w.get(ctx, queue[0], nil)
		switch {
		case errors.Is(err, errMissing) && guessed[queue[0]]:
			continue // a later table of the page, whose rows have no pages
		case err != nil:
			return 0, err
		}
		w.bytes += int64(len(body))
		w.took, w.paths = append(w.took, took), append(w.paths, queue[0])
		var paths []string
		for _, found := range internalLink.FindAllStringSubmatch(body, -1) {
			paths = append(paths, found[1])
		}
		if below, ok := tables[queue[0]]; ok {
			for _, found := range rowName.FindAllStringSubmatch(body, -1) {
				guessed[below+found[1]] = true
				paths = append(paths, below+found[1])
			}
		}
		for _, path := range paths {
			if !known[path] && path != "/docs/search" && !strings.HasSuffix(path, ".css") {
				known[path] = true
				queue = append(queue, path)
			}
		}
	}
	return first, nil
}

// search searches for the names of pages, one after the other, and returns how long each search took.
func (w *reader) search(ctx context.Context, times int) (took []time.Duration, err error) {
	for i := range times {
		_, last, _ := strings.Cut(w.paths[i%len(w.paths)], "/docs")
		words := strings.NewReplacer("/", " ", "-", " ", "_", " ").Replace(strings.TrimPrefix(last, "/"))
		_, t, err := w.get(ctx, "/docs/search", url.Values{"q": {words}})
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	if len(took) == 0 {
		return nil, errors.New("there was no search")
	}
	return took, nil
}

var errMissing = errors.New("there is no such page")

// get reads one page to its end.
func (w *reader) get(ctx context.Context, path string, query url.Values) (body string, took time.Duration, err error) {
	address := w.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", 0, err
	}
	begun := time.Now()
	resp, err := w.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostPageSize))
	took = time.Since(begun)
	switch {
	case err != nil || resp.StatusCode == http.StatusOK:
	case resp.StatusCode == http.StatusNotFound:
		err = fmt.Errorf("%s: %w", path, errMissing)
	default:
		err = fmt.Errorf("%s answered with %s", path, resp.Status)
	}
	return string(text), took, err
}
