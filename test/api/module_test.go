// These tests prove that a capability joins a server as a module: only this file's list has to name it.
package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/modules"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/apispec"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/test/api/lines"
	"godwit.dev/godwit/test/api/notes"
	"godwit.dev/godwit/test/blackbox"
)

// asServer is the environment variable that makes this test program run as godwit with the module, and with one more module that takes what
// the variable's value names.
const asServer = "MODULE_TEST_SERVER"

func TestMain(m *testing.M) {
	if taken := os.Getenv(asServer); taken != "" {
		os.Exit(command.Main(cli.With(slices.Concat(modules.All(), []module.Module{notes.Module(), lines.Module()}, thieves(taken))...)))
	}
	if address := os.Getenv(workerURL); address != "" {
		work(address)
		return
	}
	goleak.VerifyTestMain(m)
}

// thieves returns a module that claims something of another module.
func thieves(taken string) []module.Module {
	m := module.Module{Name: "thief", Start: func(context.Context, *module.Host) error { return nil }}
	switch taken {
	case "module":
		m = notes.Module()
		m.Settings, m.Commands = nil, nil
	case "setting":
		m.Settings = &notes.Settings{}
	case "setting of the server":
		m.Settings = &struct {
			Retain int `key:"retain" default:"1" help:"taken"`
		}{}
	case "command":
		m.Commands = func(module.Program) []*cobra.Command { return []*cobra.Command{{Use: "notes"}} }
	case "command of the server":
		m.Commands = func(module.Program) []*cobra.Command { return []*cobra.Command{{Use: "serve"}} }
	case "route":
		m.Start = func(_ context.Context, h *module.Host) error {
			return h.Route(call.Route{Pattern: "GET /v1/notes"})
		}
	case "route of the server":
		m.Start = func(_ context.Context, h *module.Host) error {
			return h.Route(call.Route{Pattern: "GET /v1/hooks"})
		}
	case "page":
		m.Start = func(_ context.Context, h *module.Host) error { return h.Page(module.Page{Path: "/ui/notes"}) }
	case "page of the server":
		m.Start = func(_ context.Context, h *module.Host) error { return h.Page(module.Page{Path: "/ui/keys"}) }
	case "listener":
		m.Start = func(_ context.Context, h *module.Host) error {
			return h.Listen(listen.Listener{Key: "notes_addr", Serve: func(net.Listener, *tls.Config) (listen.Service, error) { return listen.Service{}, nil }})
		}
	default:
		return nil
	}
	return []module.Module{m}
}

// program returns the command that runs this test program as godwit.
func program(ctx context.Context, taken string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asServer+"="+taken)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// moduleServer is a running one.
type moduleServer struct {
	t     *testing.T
	data  string
	addrs datadir.Addresses
	stop  func() error
}

// startModule starts a server with the module; args are additional flags.
func startModule(t *testing.T, data string, args ...string) *moduleServer {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := program(ctx, "nothing", append([]string{"serve", "--json", "--dev", "--data", data, "--http-addr", "127.0.0.1:0", "--grpc-addr", "off", "--notes-addr", "127.0.0.1:0", "--notes-most", "3"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s := &moduleServer{t: t, data: data}
	s.stop = func() error {
		cancel()
		err := cmd.Wait()
		s.stop = func() error { return nil }
		if cmd.ProcessState.ExitCode() == 0 {
			return nil
		}
		return fmt.Errorf("the server ended: %w\n%s", err, log.Bytes())
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.addrs)
	}
	if err != nil {
		t.Fatalf("the server is not ready: %v, %v", err, s.stop())
	}
	return s
}

// request asks the server and returns status and body.
func (s *moduleServer) request(method, path, key string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addrs.HTTP+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return readAnswer(s.t, http.DefaultClient, req)
}

func readAnswer(t *testing.T, client *http.Client, req *http.Request) (int, string) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// say sends a line to the module's listener and returns the answer.
func (s *moduleServer) say(line string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addrs.Others["notes_addr"])
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(blackbox.Patience))
	if _, err := fmt.Fprintln(c, line); err != nil {
		s.t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// page is a page as somebody sees it who signed in.
func (s *moduleServer) page(path string) string {
	s.t.Helper()
	jar, _ := cookiejar.New(nil) // does not fail
	client := &http.Client{Jar: jar}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addrs.HTTP+"/ui/sign-in", strings.NewReader(url.Values{"key": {"dev"}}.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, front := readAnswer(s.t, client, req); status != http.StatusOK || !strings.Contains(front, `href="/ui/notes"`) {
		s.t.Errorf("the front page does not lead to the module's: %d %.200s", status, front)
	}
	if req, err = http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addrs.HTTP+path, nil); err != nil {
		s.t.Fatal(err)
	}
	status, page := readAnswer(s.t, client, req)
	if status != http.StatusOK {
		s.t.Errorf("the page: %d", status)
	}
	return page
}

func TestModuleIsServedWithAllThatItBrings(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { exerciseModule(t) })
	t.Run("postgres", func(t *testing.T) { exerciseModule(t, "--postgres", pgtest.Database(t)) })
}

func exerciseModule(t *testing.T, args ...string) {
	data := filepath.Join(t.TempDir(), "data")
	s := startModule(t, data, args...)
	if status, body := s.request(http.MethodPost, "/v1/notes?text=buy+milk", "dev"); status != http.StatusCreated || !strings.Contains(body, "buy milk") {
		t.Fatalf("POST: %d %s", status, body)
	}
	if status, _ := s.request(http.MethodGet, "/v1/notes", ""); status != http.StatusUnauthorized {
		t.Errorf("GET without a key: %d", status)
	}
	if status, body := s.request(http.MethodGet, "/notes", ""); status != http.StatusOK || body != "Notes are kept.\n" {
		t.Errorf("the mounted handler: %d %s", status, body)
	}
	if got := s.say("call <Anna>"); got != "ok" {
		t.Errorf("the listener answers %q", got)
	}
	if page := s.page("/ui/notes"); !strings.Contains(page, "buy milk") || !strings.Contains(page, "call &lt;Anna&gt;") {
		t.Errorf("the page lacks notes:\n%s", page)
	}
	if _, figures := s.request(http.MethodGet, "/metrics", ""); !strings.Contains(figures, "\ngodwit_notes_total 2\n") {
		t.Errorf("the metrics lack the module's:\n%s", figures)
	}
	if _, settings := s.request(http.MethodGet, "/v1/settings", "dev"); !strings.Contains(settings, `"notes_most"`) {
		t.Errorf("the settings lack the module's: %s", settings)
	}
	list := program(t.Context(), "nothing", "notes", "--url", "http://"+s.addrs.HTTP)
	if out, err := list.CombinedOutput(); err != nil || string(out) != "NOTE\nbuy milk\ncall <Anna>\n" {
		t.Errorf("godwit notes: %v\n%s", err, out)
	}
	if got := s.say("third"); got != "ok" {
		t.Errorf("the third: %q", got)
	}
	if got := s.say("fourth"); !strings.HasPrefix(got, "there are as many") {
		t.Errorf("more than the setting allows: %q", got)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := startModule(t, data, args...)
	if _, body := again.request(http.MethodGet, "/v1/notes", "dev"); !strings.Contains(body, "call <Anna>") && !strings.Contains(body, `call \u003cAnna\u003e`) {
		t.Errorf("a restart has lost notes: %s", body)
	}
	if out, err := program(t.Context(), "nothing", append([]string{"app", "delete", "demo", "--yes", "--data", data}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("delete the app: %v\n%s", err, out)
	}
	eventually.True(t, "the notes of the deleted app are gone, so that there is room", func() bool { return again.say("afterwards") == "ok" })
}

func TestTablesOfModulesAreMigrated(t *testing.T) {
	data, url := filepath.Join(t.TempDir(), "data"), pgtest.Database(t)
	s := startModule(t, data)
	if first, second := s.say("first <Anna>"), s.say("second"); first != "ok" || second != "ok" {
		t.Fatal(first, second)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url, Tables: app.Tables(modules.All())}); err == nil || !strings.Contains(err.Error(), "module-notes.db has the tables of a module that this program does not have") {
		t.Errorf("without the module: %v", err)
	}
	out, err := program(t.Context(), "nothing", "migrate", "sqlite-to-postgres", data, "--postgres", url).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 notes: note\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	there := startModule(t, filepath.Join(t.TempDir(), "data"), "--postgres", url)
	if got := there.say("third"); got != "ok" {
		t.Errorf("a note after the copied ones: %q", got)
	}
	list := program(t.Context(), "nothing", "notes", "--url", "http://"+there.addrs.HTTP)
	if out, err := list.CombinedOutput(); err != nil || string(out) != "NOTE\nfirst <Anna>\nsecond\nthird\n" {
		t.Errorf("PostgreSQL has: %v\n%s", err, out)
	}
	if err := there.stop(); err != nil {
		t.Fatal(err)
	}

	back := filepath.Join(t.TempDir(), "data")
	if _, err := store.MoveToFiles(t.Context(), store.MoveConfig{Data: t.TempDir(), Postgres: url, Tables: app.Tables(modules.All())}); err == nil || !strings.Contains(err.Error(), "godwit_module_notes has the tables of a module that this program does not have") {
		t.Errorf("back without the module: %v", err)
	}
	if out, err = program(t.Context(), "nothing", "migrate", "postgres-to-sqlite", back, "--postgres", url).CombinedOutput(); err != nil || !strings.Contains(string(out), "3 notes: note\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	again := startModule(t, back)
	list = program(t.Context(), "nothing", "notes", "--url", "http://"+again.addrs.HTTP)
	if out, err := list.CombinedOutput(); err != nil || string(out) != "NOTE\nfirst <Anna>\nsecond\nthird\n" {
		t.Errorf("the folder has: %v\n%s", err, out)
	}
}

func TestTablesOfModulesAreRepaired(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startModule(t, data)
	if got := s.say("a note that will be lost"); got != "ok" {
		t.Fatal(got)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, "module-notes.db")
	if err := os.WriteFile(file, bytes.Repeat([]byte("damage"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := program(t.Context(), "nothing", "doctor", "--repair", "--data", data).CombinedOutput() // it fails, since it reports a loss
	if text := string(out); !strings.Contains(text, "module-notes.db rebuilt") || !strings.Contains(text, "lost: rows of note") || !strings.Contains(text, "mailbox.db   whole") {
		t.Errorf("the repair says\n%s", text)
	}
	if out, err := program(t.Context(), "nothing", "doctor", "--verify", "--data", data).CombinedOutput(); err != nil {
		t.Errorf("after the repair: %v\n%s", err, out)
	}
	if got := startModule(t, data).say("afterwards"); got != "ok" {
		t.Errorf("after the repair: %q", got)
	}
}

func TestRoutesThatTheSpecLacksAreFound(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.Dev = t.TempDir(), "127.0.0.1:0", config.Off, true
	a, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler), Modules: []module.Module{notes.Module()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	want := []string{
		"module notes serves GET /v1/notes, which api/openapi.yaml lacks: describe it there",
		"module notes serves POST /v1/notes, which api/openapi.yaml lacks: describe it there",
	}
	served := map[string]string{}
	for _, rt := range a.Modules().Routes() {
		served[rt.Pattern] = rt.Module
	}
	if got := apispec.Unspecified(apispec.Document(t), served); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTablesOfModulesAreBackedUp(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startModule(t, data)
	if got := s.say("keep me"); got != "ok" {
		t.Fatal(got)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	archive, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	for _, args := range [][]string{
		{"backup", archive, "--data", data},
		{"restore", archive, "--data", restored},
		{"doctor", "--verify", "--data", restored},
	} {
		if out, err := program(t.Context(), "nothing", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	if _, body := startModule(t, restored).request(http.MethodGet, "/v1/notes", "dev"); !strings.Contains(body, "keep me") {
		t.Errorf("the restored folder has %s", body)
	}
}

func TestTakenNamesAreRefusedAtStartWithBothNames(t *testing.T) {
	for taken, names := range map[string][2]string{
		"module":                {"notes", "notes"},
		"setting":               {"thief", "notes"},
		"setting of the server": {"thief", "the server"},
		"command":               {"thief", "notes"},
		"command of the server": {"thief", "the server"},
		"route":                 {"thief", "notes"},
		"route of the server":   {"thief", "the server"},
		"page":                  {"thief", "notes"},
		"page of the server":    {"thief", "the server"},
		"listener":              {"thief", "notes"},
	} {
		t.Run(taken, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
			defer cancel()
			out, err := program(ctx, taken, "serve", "--dev", "--data", filepath.Join(t.TempDir(), "data"), "--http-addr", "127.0.0.1:0", "--grpc-addr", "off").CombinedOutput()
			text := string(out[max(bytes.LastIndex(out, []byte("godwit: ")), 0):])
			if err == nil || !strings.Contains(text, names[0]) || !strings.Contains(text, names[1]) {
				t.Errorf("exit %v, want one with %q:\n%s", err, names, out)
			}
		})
	}
}

func TestSettingsOfModulesAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"--notes-most 0":          "must be between 1 and 100",
		"--notes-most 13":         "brings bad luck",
		"--notes-addr 0.0.0.0:99": "can be reached by others",
	} {
		out, err := program(t.Context(), "nothing", append(strings.Fields("serve --dev --http-addr 127.0.0.1:0 --grpc-addr off --data "+filepath.Join(t.TempDir(), "data")), strings.Fields(args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
