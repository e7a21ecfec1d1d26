package foreign

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/test/blackbox"
)

// TestOtherLibrariesDecryptWebPush encrypts messages with every length of padding, and third-party libraries must decrypt them.
func TestOtherLibrariesDecryptWebPush(t *testing.T) {
	blackbox.Long(t)
	server := pushserver.Start(pushserver.Options{})
	defer server.Close()
	client := server.Trust(provider.Client(urlguard.All))
	defer client.CloseIdleConnections()
	key, err := webpush.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := webpush.New(webpush.Config{Key: key, Targets: urlguard.All, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	var input strings.Builder
	var want []string
	encode := base64.StdEncoding.EncodeToString
	for _, n := range []int{0, 1, 50, 60, 300, 900, 1900, 3700} {
		id, address := server.Subscribe(pushserver.Accepting)
		r := push.Request{ID: "d", Address: address, Content: push.Content{Title: "Ærlig talt 🐦", Body: strings.Repeat("x", n)}}
		if _, err := s.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		m := server.Received(id)[0]
		plain, err := m.Payload()
		if err != nil {
			t.Fatal(err)
		}
		private, auth := m.Keys()
		want = append(want, encode(plain))
		input.WriteString(encode(m.Body) + " " + encode(private) + " " + encode(auth) + "\n")
	}
	check := func(name string, cmd *exec.Cmd) {
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(input.String()), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, stderr.Bytes())
		}
		got := strings.Fields(string(out))
		if len(got) != len(want) {
			t.Fatalf("%s decrypted %d messages of %d", name, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s decrypted message %d as %s, want %s", name, i, got[i], want[i])
			}
		}
	}
	t.Run("python", func(t *testing.T) {
		check("http_ece of Python", exec.CommandContext(t.Context(), python(t), filepath.Join("clients", "ece.py")))
	})
	t.Run("node", func(t *testing.T) {
		modules := filepath.Join(blackbox.Root(), ".bin", "node", "node_modules")
		if _, err := os.Stat(modules); err != nil {
			blackbox.Skip(t, "the JavaScript packages are not installed: run make test-tools")
		}
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join("clients", "ece.cjs"))
		cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
		check("http_ece of npm", cmd)
	})
}
