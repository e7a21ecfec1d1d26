package deploy

import (
	"archive/zip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server starts a development server and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), godwit, "serve", "--dev", "--data", dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if url := address(filepath.Join(dir, "addresses.json")); url != "" {
			return url
		}
	}
	t.Fatalf("the server does not say where it listens:\n%s", said.String())
	return ""
}

// address returns the URL of a server that is ready, from the file with its addresses; "": it is not ready yet.
func address(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var listens struct{ HTTP string }
	if json.Unmarshal(text, &listens) != nil {
		return ""
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + listens.HTTP + "/readyz")
	if err != nil {
		return ""
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return "http://" + listens.HTTP
}

// licensed fails the test unless a file is the licence.
func licensed(t *testing.T, name string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
		t.Errorf("%s is not the licence (%v)", name, err)
	}
}

// introduces fails the test unless a text is a README without links into the repository.
func introduces(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(text, "# Godwit for ") || strings.Contains(text, "](../") || !strings.Contains(text, "https://example.net/godwit/docs/guides/install.html") {
		t.Errorf("it is described by\n%s", text)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// The package for npm is installed without a network, beside the one that it needs, and used by a program in JavaScript and one in TypeScript.
func TestThePackageForNPMIsInstalledAndUsed(t *testing.T) {
	npm := tool(t, "npm")
	pack := one(t, handedOut(t), "godwit-*.tgz")
	modules, err := filepath.Abs(filepath.Join(root, "clients/js/node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ws := strings.TrimSpace(runIn(t, dir, nil, npm, "pack", "--silent", "--offline", "--ignore-scripts", filepath.Join(modules, "ws")))
	runIn(t, dir, nil, npm, "init", "--yes")
	runIn(t, dir, []string{"npm_config_cache=" + t.TempDir()}, npm, "install", "--offline", "--no-audit", "--no-fund", "./"+ws, pack)
	installed := filepath.Join(dir, "node_modules", "godwit")
	licensed(t, filepath.Join(installed, "LICENSE"))
	introduces(t, read(t, filepath.Join(installed, "README.md")))
	if manifest := read(t, filepath.Join(installed, "package.json")); strings.Contains(manifest, "devDependencies") || strings.Contains(manifest, `"prepare"`) || !strings.Contains(manifest, `"homepage": "https://example.net/godwit"`) {
		t.Errorf("its manifest is %s", manifest)
	}
	const program = `import { Client } from "godwit";
const client = new Client(process.argv[2], { apiKey: "dev" });
console.log((await client.publish({ to: "driver-42", title: "New ride" })).status);
`
	put(t, filepath.Join(dir, "app.mjs"), program)
	if out := runIn(t, dir, nil, tool(t, "node"), "app.mjs", server(t)); out != "stored\n" {
		t.Errorf("the program says %q", out)
	}
	const typed = `import { Client, type Notification } from "godwit";
import * as node from "godwit/node";
import * as push from "godwit/push";
const client: Client = new Client("http://localhost:8080", { app: "demo" });
client.listen("driver-42", async (n: Notification) => { const id: string = n.id; void id; });
// @ts-expect-error a title is text
void client.publish({ to: "driver-42", title: 42 });
void node; void push;
`
	put(t, filepath.Join(dir, "app.mts"), typed)
	runIn(t, dir, nil, tool(t, "node"), filepath.Join(modules, ".bin", "tsc"), "--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom,dom.iterable", "--types", "", "--ignoreConfig", "app.mts")
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Wheel and source are installed without a network, each into an environment of its own, and used.
func TestThePackagesForPyPIAreInstalledAndUsed(t *testing.T) {
	python, err := filepath.Abs(filepath.Join(root, ".bin/python/bin/python"))
	if err != nil {
		t.Fatal(err)
	}
	wheels, err := filepath.Abs(filepath.Join(root, ".bin/wheels"))
	if err != nil {
		t.Fatal(err)
	}
	dist := handedOut(t)
	url := server(t)
	const program = `import importlib.metadata, pathlib, sys
import godwit
from godwit import Client
about = importlib.metadata.distribution("godwit-client")
assert about.version == godwit.__version__ == sys.argv[2], about.version
assert (pathlib.Path(godwit.__file__).parent / "py.typed").exists(), "it is not typed"
assert any(f.name == "LICENSE" for f in about.files), "it has no licence"
assert about.metadata["License-Expression"] == "Apache-2.0"
assert about.metadata["Project-URL"] == "Homepage, https://example.net/godwit", about.metadata["Project-URL"]
with Client(sys.argv[1], api_key="dev") as client:
    print(client.publish("driver-42", title="New ride").status)
`
	for kind, pack := range map[string]string{"wheel": one(t, dist, "godwit_client-*.whl"), "source": one(t, dist, "godwit_client-*.tar.gz")} {
		dir := t.TempDir()
		runIn(t, dir, nil, python, "-m", "venv", "venv")
		inside := filepath.Join(dir, "venv", "bin", "python")
		runIn(t, dir, nil, inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", wheels, pack)
		put(t, filepath.Join(dir, "app.py"), program)
		if out := runIn(t, dir, nil, inside, "app.py", url, version); out != "stored\n" {
			t.Errorf("the program with the %s says %q", kind, out)
		}
	}
	source := one(t, unpack(t, one(t, dist, "godwit_client-*.tar.gz")), "godwit_client-*")
	licensed(t, filepath.Join(source, "LICENSE"))
	introduces(t, read(t, filepath.Join(source, "README.md")))
	introduces(t, inZip(t, one(t, dist, "godwit_client-*.whl"), "METADATA"))
	if _, err := os.Stat(filepath.Join(source, "src/godwit/py.typed")); err != nil {
		t.Error(err)
	}
}

// inZip returns the file of an archive with this base name.
func inZip(t *testing.T, archive, name string) string {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if filepath.Base(f.Name) != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	t.Fatalf("%s has no %s", archive, name)
	return ""
}
