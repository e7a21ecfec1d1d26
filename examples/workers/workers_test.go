package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/blackbox/chromium"
)

// start runs the demonstration on free ports. stop ends it, and fails the test if any of its processes still runs.
func start(t *testing.T) (s *shop, stop func()) {
	t.Helper()
	blackbox.Long(t)
	python := filepath.Join(blackbox.Root(), ".bin", "venv", "bin", "python") // the Python environment with nats-py, in the version pinned by test/foreign
	if _, err := os.Stat(python); err != nil {
		blackbox.Skip(t, "nats-py is not installed: run make test-tools")
	}
	up, ended := make(chan *shop, 1), make(chan error, 1)
	o := &options{
		godwit: blackbox.Binary(t, false), orders: blackbox.Build(t, "workers-orders", "./examples/workers/orders"), python: python,
		here: ".", dir: t.TempDir(), http: "127.0.0.1:0", gateway: "127.0.0.1:0", say: t.Logf, ready: func(s *shop) { up <- s },
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*blackbox.Patience)
	go func() { ended <- demo(ctx, o) }()
	select {
	case s = <-up:
	case err := <-ended:
		cancel()
		t.Fatalf("the demonstration did not start: %v", err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the demonstration ended: %v", err)
		}
		for _, p := range append([]*process{s.server}, s.workers["orders"], s.workers["stock"], s.workers["prices"]) {
			select {
			case <-p.ended:
			default:
				t.Errorf("%s goes on", p.name)
			}
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// answer is the answer to a call through the gateway.
type answer struct {
	status int
	body   string
	kind   string // of a problem
}

// call makes one call. Unless token is empty, it sends the token.
func (s *shop) call(t *testing.T, method, path, token, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.gateway+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Godwit-Recipient", "somebody-else") // does not get through
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Type string }
	_ = json.Unmarshal(b, &p) // not every answer is a problem
	return answer{resp.StatusCode, strings.TrimSpace(string(b)), strings.TrimPrefix(p.Type, "/problems/")}
}

// becomes repeats a call until it has a status.
func (s *shop) becomes(t *testing.T, method, path, token, body string, status int, kind string) {
	t.Helper()
	blackbox.Eventually(t, fmt.Sprintf("%s %s: %d", method, path, status), func() error {
		if a := s.call(t, method, path, token, body); a.status != status || a.kind != kind {
			return fmt.Errorf("it is %d %s", a.status, a.body)
		}
		return nil
	})
}

// watch opens the page's stream; the channel receives the contents of the topic's messages.
func (s *shop) watch(t *testing.T) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/stream?topics=shop.%3E&token="+s.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("stream: %v %v", resp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	told, welcome := make(chan string, 64), make(chan struct{})
	go func() {
		event := ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if e, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = e
			} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == "message" {
				told <- data
			} else if ok && event == "welcome" {
				close(welcome)
			}
		}
	}()
	<-welcome
	return told
}

func TestThePageGetsThroughToWorkersThatNobodyCanReach(t *testing.T) {
	s, stop := start(t)
	for path, want := range map[string]answer{
		"/gw/stock/":        {status: 200, body: `{"coffee": 20, "tea": 3, "cake": 8}`},
		"/gw/prices/coffee": {status: 200, body: `{"item":"coffee","price":320}`},
		"/gw/prices/gold":   {status: 500, body: "nobody knows what that costs"},
	} {
		if got := s.call(t, "GET", path, "", ""); got != want {
			t.Errorf("GET %s: %+v", path, got)
		}
	}
	if a := s.call(t, "GET", "/gw/shop/", "", ""); a.status != 200 || a.body != strings.TrimSpace(string(page)) {
		t.Errorf("the page: %d", a.status)
	}

	told := s.watch(t)
	a := s.call(t, "POST", "/gw/orders/", s.token, `{"item":"tea","count":2}`)
	var o struct{ Item, Who string }
	if err := json.Unmarshal([]byte(a.body), &o); err != nil || a.status != 201 || o.Item != "tea" || o.Who != visitor {
		t.Errorf("an order: %+v", a)
	}
	if got := <-told; got != `{"topic":"shop.stock","data":{"item": "tea", "left": 1}}` {
		t.Errorf("the stream says %s", got)
	}
	if got := <-told; !strings.Contains(got, a.body) {
		t.Errorf("the stream says %s of %s", got, a.body)
	}
	for order, want := range map[string]int{`{"item":"tea","count":2}`: 409, `{"item":"a.b","count":1}`: 400, `{"item":"tea","count":0}`: 400, `[`: 400} {
		if a := s.call(t, "POST", "/gw/orders/", s.token, order); a.status != want {
			t.Errorf("%s: %+v", order, a)
		}
	}
	// Orders are for callers with a token; the warehouse is for back ends only.
	if a := s.call(t, "POST", "/gw/orders/", "", `{"item":"tea","count":1}`); a.status != 401 {
		t.Errorf("an order of nobody: %+v", a)
	}
	if a := s.call(t, "TAKE", "/gw/warehouse/tea", s.token, "1"); a.status != 403 {
		t.Errorf("the warehouse lets a visitor take: %+v", a)
	}
	if a := s.call(t, "TAKE", "/gw/warehouse/tea", "dev", "1"); a.status != 200 {
		t.Errorf("the warehouse does not let a back end take: %+v", a)
	}
	stop()
}

func TestCallersLearnThatAWorkerIsGone(t *testing.T) {
	s, _ := start(t)
	order := `{"item":"cake","count":1}`
	stock := s.workers["stock"]
	// The worker is connected and does not answer: whether it carried out the request is unknown.
	if err := stock.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if a := s.call(t, "GET", "/gw/stock/", "", ""); a.status != 504 || a.kind != "no-answer" {
		t.Errorf("a worker that does not answer: %+v", a)
	}
	if a := s.call(t, "POST", "/gw/orders/", s.token, order); a.status != 504 || !strings.Contains(a.body, "warehouse did not answer") {
		t.Errorf("an order while the stock does not answer: %+v", a)
	}
	// The worker is gone: the request was not delivered, which is known at once.
	kill(t, stock)
	s.becomes(t, "GET", "/gw/stock/", "", "", 503, "nobody-serves")
	if a := s.call(t, "POST", "/gw/orders/", s.token, order); a.status != 503 || !strings.Contains(a.body, "warehouse is closed") {
		t.Errorf("an order without the stock: %+v", a)
	}
	kill(t, s.workers["prices"])
	s.becomes(t, "GET", "/gw/prices/tea", "", "", 503, "nobody-serves")
	kill(t, s.workers["orders"])
	s.becomes(t, "POST", "/gw/orders/", s.token, order, 503, "nobody-serves")
	if a := s.call(t, "GET", "/gw/shop/", "", ""); a.status != 200 {
		t.Errorf("the page is gone with the others: %+v", a)
	}
}

// TestNATSClientsTakePart runs the README's steps with the nats command and a second worker.
func TestNATSClientsTakePart(t *testing.T) {
	s, _ := start(t)
	second, err := launch(t.Context(), s.dir, "second", []string{"GODWIT_API_KEY=dev", "NATS_URL=nats://" + s.nats}, s.orders)
	if err != nil {
		t.Fatal(err)
	}
	defer second.stop()
	nc, err := nats.Connect("nats://dev@" + s.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	blackbox.Eventually(t, "two orders workers are discovered", func() error {
		inbox := nc.NewRespInbox()
		found, err := nc.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer func() { _ = found.Unsubscribe() }()
		if err := nc.PublishRequest("$SRV.PING.orders", inbox, nil); err != nil {
			return err
		}
		for range 2 {
			if _, err := found.NextMsg(time.Second); err != nil {
				return err
			}
		}
		return nil
	})
	told, err := nc.SubscribeSync("godwit.demo.t.shop.orders")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := nc.Request("godwit.demo.r.stock.get", nil, patience); err != nil || !strings.Contains(string(m.Data), "coffee") {
		t.Errorf("the stock answers %v, %v", m, err)
	}
	kill(t, s.workers["orders"])
	order := `{"item":"coffee","count":1}`
	blackbox.Eventually(t, "the second worker takes all orders", func() error {
		if a := s.call(t, "POST", "/gw/orders/", s.token, order); a.status != 201 {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	if m, err := told.NextMsg(patience); err != nil || !strings.Contains(string(m.Data), "coffee") {
		t.Errorf("the topic tells %v, %v", m, err)
	}
}

func kill(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

func TestThePageShowsWhatHappens(t *testing.T) {
	s, _ := start(t)
	ctx := chromium.Start(t, 2*blackbox.Patience)
	if err := chromedp.Run(ctx, chromedp.Navigate(s.gateway+"/gw/shop/"),
		chromedp.Poll(`document.querySelector("#item-cake")?.innerText.includes("4.50") && document.querySelector("#item-cake").cells[1].textContent === "8"`, nil),
		chromedp.Click("#item-cake button", chromedp.ByQuery),
		chromedp.Poll(`document.querySelector("#said").innerText.includes("POST /gw/orders/: 201")`, nil),
		chromedp.Poll(`document.querySelector("#live").innerText.includes("shop.orders")`, nil),
		chromedp.Poll(`document.querySelector("#item-cake").cells[1].textContent === "7"`, nil),
	); err != nil {
		var seen string
		_ = chromedp.Run(ctx, chromedp.Text("body", &seen, chromedp.ByQuery))
		t.Fatalf("%v; the page shows\n%s", err, seen)
	}
}

func TestTheExampleInstallsTheClientThatIsTested(t *testing.T) {
	wanted, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile(filepath.Join(blackbox.Root(), "test", "foreign", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains("\n"+string(tested), "\n"+strings.TrimSpace(string(wanted))+"\n") {
		t.Errorf("test/foreign/requirements.txt does not have %s", wanted)
	}
}
