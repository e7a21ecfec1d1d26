package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// panel is a panel of the dashboard, with its queries.
type panel struct {
	Type    string
	Title   string
	Targets []struct{ Expr string }
}

// panels reads the dashboard, with Grafana's variables set to all servers.
func panels(t *testing.T) []panel {
	t.Helper()
	b, err := os.ReadFile("grafana/godwit.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string
		Panels []panel
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	if board.UID != "godwit" {
		t.Errorf("the board is %q, and docs name /d/godwit", board.UID)
	}
	filled := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
	var list []panel
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		for i := range p.Targets {
			p.Targets[i].Expr = filled.Replace(p.Targets[i].Expr)
		}
		list = append(list, p)
	}
	if len(list) < 30 {
		t.Fatalf("the board has %d panels", len(list))
	}
	return list
}

// alerts returns the expressions of the alerts, by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, r := range file.Groups[0].Rules {
		list[r.Alert] = r.Expr
	}
	return list
}

// described returns the labels of each metric, from the page that is generated from the server's registry.
func described(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]string{"up": nil, "ALERTS": {"alertname"}, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(page)) {
		cells := strings.SplitN(line, "|", 4)
		if len(cells) < 4 || !strings.Contains(cells[1], "`godwit_") {
			continue
		}
		var of []string
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			of = append(of, m[1])
		}
		list[code.FindStringSubmatch(cells[1])[1]] = of
	}
	if len(list) < 50 {
		t.Fatalf("the page of metrics has %d", len(list))
	}
	return list
}

// known checks that an expression uses only known metrics and labels, and returns the metrics.
func known(t *testing.T, metrics map[string][]string, what, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v in %s", what, err, expr)
		return nil
	}
	var has []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := s.Name
		of, ok := metrics[name]
		if !ok {
			base := regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
			if of, ok = metrics[base]; !ok {
				t.Errorf("%s asks for %s, which the server does not have", what, name)
			}
			of = append(slices.Clone(of), "le")
		}
		of = append(slices.Clone(of), "job", "instance", labels.MetricName)
		for _, m := range s.LabelMatchers {
			if !slices.Contains(of, m.Name) {
				t.Errorf("%s asks for %s with the label %s, which it does not have", what, name, m.Name)
			}
		}
		names, has = append(names, name), append(has, of...)
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !slices.Contains(has, l) {
					t.Errorf("%s groups by %s, which none of %s has", what, l, names)
				}
			}
		}
		return nil
	})
	return names
}

func TestTheBoardAndTheAlertsAskForWhatThereIs(t *testing.T) {
	metrics := described(t)
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			known(t, metrics, "panel "+p.Title, target.Expr)
		}
	}
	for name, expr := range alerts(t) {
		known(t, metrics, "alert "+name, expr)
	}
}

func TestEachAlertFiresAndResolves(t *testing.T) {
	promtool := tool(t, "promtool")
	b, err := os.ReadFile("prometheus/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range alerts(t) {
		if !bytes.Contains(b, []byte(`{alertname=\"`+name+`\"}`)) {
			t.Errorf("nobody tries alert %s", name)
		}
	}
	if out, err := exec.Command(promtool, "test", "rules", "prometheus/rules_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestThePanelsShowARealServer: a Prometheus with the shipped settings scrapes a real server; every panel's queries run.
func TestThePanelsShowARealServer(t *testing.T) {
	prometheus := tool(t, "prometheus")
	server := serve(t)
	for _, to := range []string{"ann", "ben"} {
		post(t, server+"/v1/notifications", fmt.Sprintf(`{"to":%q,"title":"Hi","category":"NEWS"}`, to))
	}
	folder := t.TempDir()
	copied(t, folder, "rules.yml", nil)
	copied(t, folder, "prometheus.yml", func(text string) string {
		if !strings.Contains(text, "[localhost:8080]") || strings.Count(text, "15s") != 2 {
			t.Fatalf("prometheus.yml looks at nothing: %s", text)
		}
		text = strings.ReplaceAll(text, "15s", "1s")
		return strings.ReplaceAll(text, "[localhost:8080]", "["+strings.TrimPrefix(server, "http://")+"]")
	})
	said := start(t, exec.Command(prometheus, "--config.file="+filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address=127.0.0.1:0"))
	var api string
	until(t, "Prometheus says where it listens", func() bool {
		at := listensAt.FindStringSubmatch(said())
		if at != nil {
			api = "http://" + at[1]
		}
		return at != nil
	})
	until(t, "Prometheus has looked three times", func() bool {
		values, err := ask(t, api, `count_over_time(godwit_build_info[5m])`)
		return err == nil && len(values) == 1 && values[0] != "1" && values[0] != "2"
	})
	here := scraped(t, server)
	metrics := described(t)
	shown := 0
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			values, err := ask(t, api, target.Expr)
			if err != nil {
				t.Errorf("panel %s: %v", p.Title, err)
			}
			missing := slices.ContainsFunc(known(t, metrics, "panel "+p.Title, target.Expr), func(name string) bool { return !here[name] })
			above := strings.HasSuffix(target.Expr, "> 0")
			if len(values) == 0 && !missing && !above {
				t.Errorf("panel %s shows nothing for %s", p.Title, target.Expr)
			}
			shown += len(values)
		}
	}
	if shown < 60 {
		t.Errorf("the whole board shows %d values", shown)
	}
	for name, expr := range alerts(t) {
		if values, err := ask(t, api, expr); err != nil || len(values) > 0 {
			t.Errorf("alert %s on a server that is well: %v, %v", name, values, err)
		}
	}
}

// serve starts a development server and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	start(t, exec.Command(godwit, "serve", "--dev", "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--nats-addr", "127.0.0.1:0", "--data", data))
	var addrs struct{ HTTP string }
	until(t, "the server has started", func() bool {
		b, err := os.ReadFile(filepath.Join(data, "addresses.json"))
		return err == nil && json.Unmarshal(b, &addrs) == nil && addrs.HTTP != ""
	})
	return "http://" + addrs.HTTP
}

// listensAt matches the line with the port in Prometheus's log.
var listensAt = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// start starts a program that is stopped at the end of the test; said returns its output so far.
func start(t *testing.T, cmd *exec.Cmd) (said func() string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "said")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said = func() string {
		b, err := os.ReadFile(out)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // Prometheus exits with 0 or by the signal
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), said())
		}
	})
	return said
}

// until waits at most a minute for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func post(t *testing.T, to, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s", to, resp.Status)
	}
}

// ask lets Prometheus evaluate an expression, and returns the values of the result.
func ask(t *testing.T, api, expr string) (values []string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values, nil
}

// scraped returns the names of a server's metrics.
func scraped(t *testing.T, server string) map[string]bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	names := map[string]bool{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			names[line[:strings.IndexAny(line, "{ ")]] = true
		}
	}
	return names
}

// copied writes a changed copy of a file of prometheus/ to another folder.
func copied(t *testing.T, to, name string, change func(string) string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("prometheus", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if change != nil {
		text = change(text)
	}
	if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
