// Package chdbtest starts ClickHouse's engine for tests: chdb behind HTTP, in the Python interpreter that GODWIT_CHDB_PYTHON names. make
// sinks installs that interpreter.
package chdbtest

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed server.py
var program []byte

// Engine is a ClickHouse engine that listens at URL. Its tables outlive a Stop.
type Engine struct {
	URL string

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	http *http.Client
}

// Start starts an engine with an empty folder, or skips the test.
func Start(t testing.TB) *Engine {
	t.Helper()
	python := os.Getenv("GODWIT_CHDB_PYTHON")
	if python == "" {
		t.Skip("GODWIT_CHDB_PYTHON names no Python with chdb")
	}
	script := filepath.Join(t.TempDir(), "server.py")
	if err := os.WriteFile(script, program, 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	e := &Engine{t: t, args: []string{python, script, t.TempDir()}, http: &http.Client{Transport: transport}}
	t.Cleanup(func() {
		e.Stop()
		transport.CloseIdleConnections()
	})
	port := e.Again()
	e.URL = "http://127.0.0.1:" + port
	e.args = append(e.args, port)
	return e
}

// Again starts the engine after Stop, with the data it had, and returns its port.
func (e *Engine) Again() (port string) {
	e.t.Helper()
	e.cmd = exec.CommandContext(e.t.Context(), e.args[0], e.args[1:]...) // the test's own Python
	e.cmd.Stderr = os.Stderr
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	port, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		e.t.Fatalf("start ClickHouse's engine: %v", err)
	}
	return strings.TrimSpace(port)
}

// Stop kills it.
func (e *Engine) Stop() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	e.cmd = nil
}

// Ask executes a statement and returns the result: values separated by tabs, rows by line ends.
func (e *Engine) Ask(statement string) (string, error) {
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.URL, strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %d %s, %w", statement, resp.StatusCode, b, err)
	}
	return strings.TrimSpace(string(b)), nil
}
