package api

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/test/blackbox"
)

// TestHooksOfOnesOwnNetwork: whoever hosts a server has the receivers of its events beside it. A development server posts to this machine,
// another one where its operator allows it, and who may not is told the setting.
func TestHooksOfOnesOwnNetwork(t *testing.T) {
	receiver := hookserver.Start("")
	defer receiver.Close()
	at, err := url.Parse(receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	local := "http://localhost:" + at.Port() + "/h"
	for _, c := range []struct {
		name    string
		args    []string
		url     string
		refused string
	}{
		{"development", []string{"--dev"}, receiver.URL, ""},
		{"development, by name", []string{"--dev"}, local, ""},
		{"development, another network", []string{"--dev"}, "https://10.0.0.5/", "leads to 10.0.0.5, which is not public: the operator may allow it with allow_targets"},
		{"nothing allowed", nil, receiver.URL, "plain http:// is for hosts that the operator names in allow_targets"},
		{"nothing allowed, encrypted", nil, "https://127.0.0.1:" + at.Port() + "/h", "leads to 127.0.0.1, which is not public: the operator may allow it with allow_targets"},
		{"the address", []string{"--allow-targets", at.Host}, receiver.URL, ""},
		{"the network", []string{"--allow-targets", "10.0.0.0/8,127.0.0.0/8"}, receiver.URL, ""},
		{"the name", []string{"--allow-targets", "localhost:" + at.Port()}, local, ""},
		{"the name, by address", []string{"--allow-targets", "localhost:" + at.Port()}, receiver.URL, "allow_targets"},
		{"another port", []string{"--allow-targets", "127.0.0.1:1"}, receiver.URL, "allow_targets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := blackbox.New(t, blackbox.Plain(), blackbox.Args(c.args...))
			api := s.API()
			file := filepath.Join(t.TempDir(), "key")
			text := "dev"
			if c.args == nil || c.args[0] != "--dev" {
				out, err := s.Manage("app", "create", "demo", "--data", s.Dir)
				if err != nil {
					t.Fatal(err, out)
				}
				text = regexp.MustCompile(`gw_\S+`).FindString(out)
				api = s.API(text)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Launch(); err != nil {
				t.Fatal(err)
			}
			out, err := s.Run("hook", "set", "x", c.url, "--url", s.URL(""), "--api-key-file", file)
			if c.refused != "" {
				if err == nil || !strings.Contains(out, c.refused) {
					t.Fatalf("%v: %s; want %q", err, out, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err, out)
			}
			before := receiver.Requests()
			api.Call(t, http.MethodPost, "/v1/hooks/x/test", nil, nil)
			if receiver.Requests() == before {
				t.Errorf("the receiver got nothing")
			}
		})
	}
}
