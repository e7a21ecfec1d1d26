package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/stubs"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/store"
)

// Inbox measures inboxes: how soon a server with many of them answers with the first page and the counts of one, how much disk an item takes, and
// what a publish costs that inboxes keep.
type Inbox struct {
	Common
	Recipients int // with an inbox; 0: that is not measured
	Kept       int // items of each
	Size       int // bytes of a content
	Reads      int
	Pairs      int       // of publishes without and with inbox, for each rate; 0: that is not measured
	Rates      []float64 // publishes a second; 0: as fast as they are answered
	For        time.Duration
}

// firstPage is how many items the component in a page asks for.
const firstPage = 20

// Run measures.
func (in *Inbox) Run(ctx context.Context) (*report.Result, error) {
	r := in.begin("inbox", "inboxes: the first page and the counts among many, their disk, and what a kept publish costs",
		set("recipients", in.Recipients), set("items of each", in.Kept), set("content", fmt.Sprintf("%d B", in.Size)), set("reads", in.Reads), set("pairs", in.Pairs), set("rates", in.Rates))
	return r, in.runs(ctx, func(ctx context.Context, _ int) error {
		if err := in.read(ctx, r); err != nil {
			return err
		}
		for _, rate := range in.Rates {
			if err := in.publish(ctx, r, rate); err != nil {
				return err
			}
		}
		return nil
	})
}

// read measures a server whose folder is filled with inboxes.
func (in *Inbox) read(ctx context.Context, r *report.Result) error {
	if in.Recipients == 0 {
		return nil
	}
	server, err := testbed.StartServer(ctx, in.Testbed.Server)
	if err != nil {
		return err
	}
	defer server.Stop()
	begun := time.Now()
	if err := server.Restart(ctx, func(data string) error { return in.fill(ctx, r, data) }); err != nil {
		return err
	}
	r.Add("filled file", "filling and start", "s", time.Since(begun).Seconds())
	w := &inboxReader{client: &http.Client{Timeout: time.Minute}, base: "http://" + server.HTTP, key: server.Key}
	defer w.client.CloseIdleConnections()
	for _, what := range []struct{ group, path string }{
		{"first page of " + report.Format(firstPage), fmt.Sprintf("/v1/inbox?limit=%d&to=", firstPage)}, {"counts", "/v1/inbox/counts?to="},
	} {
		in.Testbed.Say("reading %s", what.group)
		var took []time.Duration
		for range in.Reads {
			d, err := w.get(ctx, what.path+stubs.InboxOwner(rand.IntN(in.Recipients)), in.Kept)
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		reportTimes(r, what.group, took)
	}
	return server.Alive()
}

// fill fills a data folder that no server uses, and measures its file.
func (in *Inbox) fill(ctx context.Context, r *report.Result, data string) error {
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	path := filepath.Join(data, store.MailboxFile)
	boxes := stubs.Inboxes{App: testbed.App, Recipients: in.Recipients, Kept: in.Kept, Size: in.Size}
	if err := boxes.Fill(ctx, path, in.Testbed.Say); err != nil {
		return err
	}
	in.Testbed.Say("measuring the file")
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	pages, contents, err := stubs.InboxBytes(ctx, path)
	if err != nil {
		return err
	}
	items := float64(in.Recipients) * float64(in.Kept)
	r.Add("filled file", "bytes", "MB", float64(info.Size())/mb)
	r.Add("filled file", "content of an item", "B", float64(contents)/items)
	r.Add("filled file", "an item beyond its content", "B", float64(pages-contents)/items)
	return nil
}

// inboxReader asks for inboxes as a back end does.
type inboxReader struct {
	client    *http.Client
	base, key string
}

// get reads a page or counts of an inbox, which must say that it has so many items.
func (w *inboxReader) get(ctx context.Context, path string, total int) (took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	begun := time.Now()
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	took = time.Since(begun)
	if err != nil {
		return 0, err
	}
	var answer struct{ Total int }
	if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK || answer.Total != total {
		return 0, fmt.Errorf("GET %s answered with %s and not with %d items: %.300s", path, resp.Status, total, body)
	}
	return took, nil
}

// publish measures the same load without and with inbox in turn, so that other work of the machine affects both alike.
func (in *Inbox) publish(ctx context.Context, r *report.Result, rate float64) error {
	groups := [2]string{"publish without inbox", "publish with inbox"}
	if rate > 0 {
		groups = [2]string{report.Format(rate) + "/s without inbox", report.Format(rate) + "/s with inbox"}
	}
	for pair := range in.Pairs {
		var done, cpu [2]float64
		for turn := range 2 {
			kept := (turn + pair) % 2 // who goes first alternates
			l := Load{
				Common: in.Common, Servers: 1, Clients: 1000, Publishers: 64, Size: in.Size, Transport: loadgen.WebSocketJSON, Batch: 1,
				Warmup: 2 * time.Second, For: in.For, Kept: kept == 1, Rate: rate,
			}
			group := groups[kept]
			l.Testbed.Say("pair %d: %s", pair+1, group)
			o, err := l.measure(ctx, pair)
			if err != nil {
				return err
			}
			done[kept] = float64(o.Published.Accepted) / o.Published.Seconds
			cpu[kept] = meter.CPU(o.Server) / float64(max(o.Counts.Received, 1)) * 1e6
			r.Add(group, "publishes accepted, delivered and acknowledged", "/s", done[kept])
			r.Add(group, "server CPU each", "µs", cpu[kept])
			lost, _ := arrived(o.Expected, o.Counts.Received)
			r.Add(group, "deliveries missing", "", float64(lost))
		}
		if rate == 0 {
			r.Add(groups[1], "rate to that without", "×", done[1]/done[0])
		}
		r.Add(groups[1], "server CPU to that without", "×", cpu[1]/cpu[0])
	}
	return nil
}
