package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

const count = 20

// python returns the interpreter with the pinned packages.
func python(t *testing.T) string {
	t.Helper()
	p := filepath.Join(blackbox.Root(), ".bin", "venv", "bin", "python")
	if _, err := os.Stat(p); err != nil {
		blackbox.Skip(t, "the Python packages are not installed: run make test-tools")
	}
	return p
}

// run starts a program, which is killed when ctx ends, and passes each printed line to line.
func run(ctx context.Context, t *testing.T, line func(string), name string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, stderr.Bytes())
	}
	return nil
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*blackbox.Patience)
	t.Cleanup(cancel)
	return ctx
}

// frame parses a line as a frame: its name and its content.
func frame(t *testing.T, line string) (name string, inner map[string]any) {
	t.Helper()
	var f map[string]map[string]any
	if err := json.Unmarshal([]byte(line), &f); err != nil || len(f) != 1 {
		t.Fatalf("frame %q: %v", line, err)
	}
	for name, inner = range f {
	}
	return name, inner
}

// receive runs a client that prints frames. Half of the notifications are published before it connects, the others while it is connected.
// All must arrive in order and be acknowledged.
func receive(t *testing.T, server *blackbox.Server, recipient, name string, args ...string) {
	t.Helper()
	ctx, api := timeout(t), server.API()
	id := func(i int) string { return fmt.Sprintf("%s-%d", recipient, i) }
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			err := api.Publish(ctx, map[string]any{"to": recipient, "id": id(i), "title": "Blåbær ☕", "data": map[string]any{"n": i}})
			if err != nil {
				t.Error(err)
			}
		}
	}
	publish(0, count/2)
	var got []string
	err := run(ctx, t, func(line string) {
		kind, inner := frame(t, line)
		if kind == "welcome" && len(got) == 0 {
			publish(count/2, count)
		}
		if kind == "notification" {
			got = append(got, inner["id"].(string))
			if inner["title"] != "Blåbær ☕" {
				t.Errorf("title %q", inner["title"])
			}
		}
	}, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if i >= len(got) || got[i] != id(i) {
			t.Fatalf("got %v, want %s-0 to %d in order", got, recipient, count-1)
		}
		blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, id(i), recipient, "acked") })
	}
}

func TestPythonWebSockets(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev())
	receive(t, server, "py-ws", python(t), "clients/ws.py", "ws://"+server.HTTP+"/v1/connect", "py-ws", fmt.Sprint(count))
}

func TestPythonServerSentEvents(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev())
	receive(t, server, "py-sse", python(t), "clients/sse.py", server.URL(""), "py-sse", fmt.Sprint(count))
}

func TestPythonGRPCByReflection(t *testing.T) {
	blackbox.Long(t)
	for _, engine := range []string{"reactor", "std"} {
		t.Run(engine, func(t *testing.T) {
			server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--grpc-engine", engine))
			frames := 0
			err := run(timeout(t), t, func(string) { frames++ }, python(t), "clients/grpc_client.py", server.GRPC, "py-grpc", fmt.Sprint(count))
			if err != nil {
				t.Fatal(err)
			}
			if frames < count+1 {
				t.Errorf("the client printed %d frames, want a welcome and %d notifications", frames, count)
			}
			for i := range count {
				id := fmt.Sprintf("py-py-grpc-%d", i)
				blackbox.Eventually(t, "acknowledged", func() error { return server.API().WantState(t.Context(), id, "py-grpc", "acked") })
			}
		})
	}
}

func TestCurlReadsServerSentEvents(t *testing.T) {
	blackbox.Long(t)
	curl := blackbox.Tool(t, "curl")
	server := blackbox.Start(t, blackbox.Dev())
	api := server.API()
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	var got []string
	event := ""
	err := run(ctx, t, func(line string) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		if event == "welcome" && line == "" {
			for i := range 3 {
				if err := api.Publish(ctx, map[string]any{"to": "curl", "id": fmt.Sprintf("curl-%d", i), "title": "Hi"}); err != nil {
					t.Error(err)
				}
			}
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			got = append(got, id)
		}
		if line == "" && len(got) == 3 {
			cancel()
		}
	}, curl, "-sSN", "--max-time", "60", server.URL("/v1/stream?app=demo&recipient=curl"))
	if strings.Join(got, " ") != "1 2 3" {
		t.Fatalf("event ids %v, want 1 2 3: %v", got, err)
	}
	answer, err := api.Do(timeout(t), "POST", "/v1/acks?app=demo&recipient=curl", map[string]any{"ids": []string{"curl-0", "curl-1"}})
	if err != nil || string(bytes.TrimSpace(answer.Body)) != `{"acked":2}` {
		t.Fatalf("acks: %v %v", answer, err)
	}
	if err := api.WantState(t.Context(), "curl-1", "curl", "acked"); err != nil {
		t.Error(err)
	}
	blackbox.Eventually(t, "delivered, not acknowledged", func() error { return api.WantState(t.Context(), "curl-2", "curl", "delivered") })
}

func TestGRPCurl(t *testing.T) {
	blackbox.Long(t)
	grpcurl := blackbox.Tool(t, "grpcurl")
	server := blackbox.Start(t, blackbox.Dev())
	ctx := timeout(t)
	call := func(stdin string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, grpcurl, append([]string{"-plaintext", "-max-time", "30"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	list, err := call("", server.GRPC, "list")
	if err != nil {
		t.Fatal(err, list)
	}
	for _, service := range []string{"godwit.v1.Client", "godwit.v1.Publisher", "grpc.health.v1.Health"} {
		if !strings.Contains(list, service+"\n") {
			t.Errorf("reflection does not list %s:\n%s", service, list)
		}
	}
	if out, err := call("", server.GRPC, "describe", "godwit.v1.PublishRequest"); err != nil || !strings.Contains(out, "collapse_key") {
		t.Errorf("describe: %v\n%s", err, out)
	}
	out, err := call("", "-rpc-header", "authorization: Bearer dev", "-d", `{"to":["grpcurl"],"id":"g1","title":"Hi"}`, server.GRPC, "godwit.v1.Publisher/Publish")
	if err != nil || !strings.Contains(out, `"id": "g1"`) {
		t.Fatalf("publish: %v\n%s", err, out)
	}
	talk(ctx, t, grpcurl, server.GRPC)
	blackbox.Eventually(t, "acknowledged", func() error { return server.API().WantState(ctx, "g1", "grpcurl", "acked") })
}

// talk runs a session with grpcurl: it sends a hello, and acknowledges the notification once that was printed.
func talk(ctx context.Context, t *testing.T, grpcurl, addr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, grpcurl, "-plaintext", "-d", "@", addr, "godwit.v1.Client/Connect")
	in, out := blackbox.StartPiped(t, cmd)
	io.WriteString(in, `{"hello":{"app":"demo","recipient":"grpcurl"}}`)
	answers := json.NewDecoder(out)
	for {
		var frame map[string]map[string]any
		if err := answers.Decode(&frame); err != nil {
			t.Fatal("read frame:", err)
		}
		if frame["notification"] != nil {
			break
		}
	}
	io.WriteString(in, `{"ack":{"ids":["g1"]}}`)
	io.WriteString(in, `{"ping":{}}`)
	for {
		var frame map[string]map[string]any
		if err := answers.Decode(&frame); err != nil {
			t.Fatal("read frame:", err)
		}
		if _, ok := frame["pong"]; ok {
			break
		}
	}
	in.Close()
	cancel()
	cmd.Wait()
}

func TestH2SpecFindsNothing(t *testing.T) {
	blackbox.Long(t)
	h2spec := blackbox.Tool(t, "h2spec")
	server := blackbox.Start(t, blackbox.Dev())
	host, port, _ := strings.Cut(server.GRPC, ":")
	ctx := timeout(t)
	out, err := exec.CommandContext(ctx, h2spec, "-h", host, "-p", port, "-o", "5").CombinedOutput()
	summary := out[max(0, len(out)-4000):]
	if err != nil || !bytes.Contains(out, []byte(", 0 failed")) {
		t.Fatalf("h2spec: %v\n%s", err, summary)
	}
	t.Logf("%s", bytes.TrimSpace(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]))
	// The server must still work afterwards.
	if err := server.API().Publish(ctx, map[string]any{"to": "after", "title": "h2spec"}); err != nil {
		t.Error(err)
	}
}
