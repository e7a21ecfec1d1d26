package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Console measures the web console of an app with many recipients: it signs in and follows the links of all pages.
type Console struct {
	Common
	Recipients int
	Times      int // how often each page is read
}

// Bounds of the console's measurement.
const (
	mostAlike   = 5      // pages of one shape, such as those of single recipients
	linesAtOnce = 10_000 // of one call of the API
	devKey      = "dev"
	consolePath = "/ui/"
)

// seeds are pages to which no link leads: a search, and what a person types into a filter.
var seeds = []string{
	consolePath, "/ui/find?q=", "/ui/recipients?prefix=", "/ui/audience?where=" + url.QueryEscape(`city = "Oslo" and age >= 40`), "/ui/audience?tag=news",
	"/ui/new-template", "/ui/segments/" + segmentName,
}

const segmentName = "oslo"

// Run measures.
func (c *Console) Run(ctx context.Context) (*report.Result, error) {
	r := c.begin("console", "The pages of the web console, one request at a time", set("recipients", c.Recipients), set("reads of each page", c.Times))
	return r, c.runs(ctx, func(ctx context.Context, _ int) error {
		server, err := testbed.StartServer(ctx, c.Testbed.Server)
		if err != nil {
			return err
		}
		defer server.Stop()
		b := &consoleReader{base: "http://" + server.HTTP, prefix: prefix()}
		if err := b.fill(ctx, c.Recipients); err != nil {
			return err
		}
		if err := b.signIn(ctx); err != nil {
			return err
		}
		defer b.client.CloseIdleConnections()
		if err := b.walk(ctx, c.Times); err != nil {
			return err
		}
		b.report(r)
		return nil
	})
}

// consoleReader reads the console like a person who follows its links.
type consoleReader struct {
	client       *http.Client
	base, prefix string
	took         map[string][]time.Duration // by the shape of the page's path
	all          []time.Duration
	pages        int
	largest      int
	largestPath  string
}

// fill stores an endpoint and a notification for each recipient, and a segment.
func (b *consoleReader) fill(ctx context.Context, recipients int) error {
	b.client = &http.Client{Timeout: time.Minute}
	cities := []string{"Oslo", "Bergen", "Tromsø", "Bodø"}
	for from := 0; from < recipients; from += linesAtOnce {
		var endpoints, notifications bytes.Buffer
		for i := from; i < min(from+linesAtOnce, recipients); i++ {
			name := fmt.Sprintf("%s%07d", b.prefix, i)
			fmt.Fprintf(&endpoints, `{"channel":"telegram","recipient":%q,"address":{"chat_id":%d},"tags":["news"],"attributes":{"city":%q,"age":%d}}`+"\n", name, i+1, cities[i%len(cities)], 18+i%60)
			fmt.Fprintf(&notifications, `{"to":%q,"title":"Storm from the west","body":"From six in the evening.","ttl":"24h"}`+"\n", name)
		}
		for path, lines := range map[string]*bytes.Buffer{"/v1/endpoints/batch": &endpoints, "/v1/notifications/batch": &notifications} {
			if err := b.call(ctx, http.MethodPost, path, lines); err != nil {
				return err
			}
		}
	}
	segment, err := json.Marshal(map[string]string{"where": `city = "Oslo" and age >= 40`})
	if err != nil {
		return err
	}
	return b.call(ctx, http.MethodPut, "/v1/segments/"+segmentName, bytes.NewReader(segment))
}

func (b *consoleReader) call(ctx context.Context, method, path string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s answered with %s: %.300s", method, path, resp.Status, answer)
	case bytes.Contains(answer, []byte(`"error"`)):
		return fmt.Errorf("%s %s refused lines: %.300s", method, path, answer)
	}
	return nil
}

func (b *consoleReader) signIn(ctx context.Context) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	b.client.Jar = jar
	form := url.Values{"key": {devKey}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/ui/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("signing in answered with %s", resp.Status)
	}
	return nil
}

var consoleLink = regexp.MustCompile(`href="(/ui/[^"#]*)`)

// walk reads every page that links lead to, and a few of each shape.
func (b *consoleReader) walk(ctx context.Context, times int) error {
	b.took = make(map[string][]time.Duration)
	seen, alike := map[string]bool{}, map[string]int{}
	var queue []string
	add := func(path string) {
		if shape := shapeOf(path); !seen[path] && alike[shape] < mostAlike && !strings.Contains(path, "export") {
			seen[path] = true
			alike[shape]++
			queue = append(queue, path)
		}
	}
	for _, path := range seeds {
		if strings.HasSuffix(path, "=") {
			path += b.prefix + "0012345"
		}
		add(path)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		body, err := b.read(ctx, queue[0], times)
		if err != nil {
			return err
		}
		for _, found := range consoleLink.FindAllStringSubmatch(body, -1) {
			add(html.UnescapeString(found[1]))
		}
	}
	return nil
}

// shapeOf returns what the paths of alike pages have in common.
func shapeOf(path string) string {
	path, query, _ := strings.Cut(path, "?")
	if parts := strings.SplitN(strings.TrimPrefix(path, consolePath), "/", 3); len(parts) > 1 {
		parts[1] = "*"
		path = consolePath + strings.Join(parts, "/")
	}
	if name, _, filtered := strings.Cut(query, "="); filtered {
		path += "?" + name
	}
	return path
}

// read reads a page several times, and returns it.
func (b *consoleReader) read(ctx context.Context, path string, times int) (string, error) {
	w := reader{client: b.client, base: b.base}
	var body string
	for range times {
		page, took, err := w.get(ctx, path, nil)
		if err != nil {
			return "", err
		}
		body = page
		shape := shapeOf(path)
		b.took[shape], b.all = append(b.took[shape], took), append(b.all, took)
	}
	b.pages++
	if len(body) > b.largest {
		b.largest, b.largestPath = len(body), shapeOf(path)
	}
	return body, nil
}

func (b *consoleReader) report(r *report.Result) {
	const group = "each page"
	r.Add(group, "pages", "", float64(b.pages))
	reportTimes(r, group, b.all)
	r.Add(group, "the largest has", "KB", float64(b.largest)/1000)
	slowest := func(shape string) time.Duration { return slices.Max(b.took[shape]) }
	shapes := make([]string, 0, len(b.took))
	for shape := range b.took {
		shapes = append(shapes, shape)
	}
	slices.SortFunc(shapes, func(a, c string) int { return int(slowest(c) - slowest(a)) })
	for _, shape := range shapes[:min(len(shapes), 8)] {
		r.Add("the slowest pages, max", shape, "ms", ms(slowest(shape)))
	}
	r.Note("the largest page is " + b.largestPath)
}
