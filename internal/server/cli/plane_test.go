package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/cli"
)

// ofFolders are the commands that work on the files of this machine or of nobody; all others ask a server.
var ofFolders = []string{
	"serve", "backup", "restore", "migrate sqlite-to-postgres", "migrate postgres-to-sqlite", "doctor", "drain", "ready", "version", "examples", "help", "bench", "import perfecty",
	"config check", "config show", "context add", "context use", "context list", "context delete", "login", "operator show",
	"completion bash", "completion zsh", "completion fish", "completion powershell", "sink schema", "source schema",
}

// walked are the arguments with which commands are tried, by path. Others are tried without any.
var walked = map[string][]string{
	"app create": {"walked"}, "app set": {"walked", "--issuer", "x"}, "app show": {"walked"}, "app delete": {"walked", "--yes"}, "app allow-anonymous": {"walked", "--off"},
	"key create": {"--app", "demo"}, "key list": {"--app", "demo"}, "key delete": {"none", "--app", "demo"}, "token": {"--recipient", "ann", "--app", "demo"},
	"channel list": {"--app", "demo"}, "channel set": {"webpush", "--set", "subject=mailto:a@b.example", "--app", "demo"}, "channel test": {"webpush", "--app", "demo"}, "channel delete": {"webpush", "--yes", "--app", "demo"},
	"category list": {"--app", "demo"}, "category set": {"alarm", "--critical", "--app", "demo"}, "category delete": {"alarm", "--app", "demo"},
	"sink list": {"--app", "demo"}, "sink add": {"clickhouse", "--clickhouse-url", "https://c.example", "--disable", "--app", "demo"}, "sink remove": {"clickhouse", "--app", "demo"},
	"source list": {"--app", "demo"}, "source add": {"redisstream", "--redis-url", "redis://r.example", "--disable", "--app", "demo"}, "source remove": {"redisstream", "--app", "demo"},
	"source preview": {"redisstream", "--app", "demo"}, "source pause": {"x"}, "source resume": {"x"}, "source resync": {"x"}, "source quarantine": {"x"},
	"publish": {"ann", "--title", "Hi", "--id", "walked"}, "status": {"walked"}, "why": {"walked", "--to", "ann"}, "recall": {"walked"},
	"recipient show": {"ann"}, "recipient history": {"ann"}, "recipient disconnect": {"ann"}, "recipient erase": {"bob", "--yes"},
	"listen": {"ann", "--timeout", "1ms"}, "request": {"a.b", "--timeout", "1s"}, "serve-subject": {"a.b", "--", "cat"},
	"preferences get": {"ann"}, "preferences set": {"ann", "{}"}, "template show": {"x"}, "template revisions": {"x"}, "template set": {"x", "--title", "Hi"}, "template preview": {"x"}, "template remove": {"x"},
	"digest show": {"x"}, "inbox list": {"ann"}, "inbox read": {"ann", "--all"}, "inbox watch": {"ann"}, "segment show": {"x"}, "segment set": {"x", "--where", "vip = true"}, "segment count": {"x"}, "segment delete": {"x"},
	"hook show": {"x"}, "hook set": {"x", "https://a.example/"}, "hook replay": {"x", "--since", "0"}, "hook delete": {"x"},
	"object put": {"g/o", "--version", "1"}, "object get": {"g/o"}, "object list": {"g"}, "object watch": {"g/o", "--timeout", "1ms"}, "object status": {"g/o"}, "object delete": {"g/o"},
	"topic pub": {"a.b", "x"}, "topic sub": {"a.b", "--timeout", "1ms"}, "events": {"--since", "0", "-n", "1"}, "cluster forget": {"n9"},
	"endpoint add": {"--chat-id", "1"}, "endpoint get": {"x"}, "endpoint set": {"x", "--locale", "de"}, "endpoint rm": {"x"}, "endpoint import": {"none.csv"}, "endpoint export": {"-"},
	"campaign create": {"--title", "x", "--channel", "telegram"}, "campaign show": {"x"}, "campaign start": {"x"}, "campaign pause": {"x"}, "campaign resume": {"x"}, "campaign cancel": {"x"}, "campaign recall": {"x"},
	"campaign correct": {"x", "--title", "y"}, "campaign replace": {"x", "--title", "y"}, "campaign clone": {"x"}, "campaign decide": {"x", "A"}, "campaign watch": {"x"}, "campaign deliveries": {"x"}, "campaign delete": {"x"}, "campaign test": {"x", "--endpoint", "e"},
	"campaign preview": {"x"}, "campaign retry-unknown": {"x"}, "campaign upload": {"none.png", "--chat", "42"}, "object batch set": {"g", "1s"}, "object batch delete": {"g"}, "audit": {"--server"},
}

// longest limits the time of one command.
const longest = 2 * time.Second

// TestEveryCommandAsksTheServerThatItIsTold walks all commands with --url in a folder that holds another server's data folder: no command
// reads or changes that, and each is answered by the server that --url names.
func TestEveryCommandAsksTheServerThatItIsTold(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s := serveTo(t, out)
	var at datadir.Addresses
	s.until(t, "it listens", func(a datadir.Addresses) bool { at = a; return a.HTTP != "" })

	empty, decoyed := t.TempDir(), t.TempDir()
	decoy := filepath.Join(decoyed, "godwit-data")
	if err := os.Mkdir(decoy, 0o700); err != nil {
		t.Fatal(err)
	}
	// A command that reads these files asks a missing server, or presents an unknown key.
	for name, text := range map[string]string{datadir.AddressesFile: `{"http":"127.0.0.1:1"}`, "operator.key": "gwo_decoy_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if err := os.WriteFile(filepath.Join(decoy, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := datadir.Acquire(decoy)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	before := content(t, decoy)
	for _, path := range leaves(cli.Root()) {
		if slices.Contains(ofFolders, path) {
			continue
		}
		for _, dir := range []string{empty, decoyed} {
			args := append(strings.Fields(path), walked[path]...)
			flags := []string{"--url", "http://" + at.HTTP, "--operator-key-file", filepath.Join(s.dir, "operator.key")}
			ctx, cancel := context.WithTimeout(t.Context(), longest) // some wait for what does not come
			cmd := exec.CommandContext(ctx, "godwit", append(flags, args...)...)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			said, _ := cmd.CombinedOutput() // many have nothing to work on; who answered counts
			cancel()
			if code := cmd.ProcessState.ExitCode(); code == 2 {
				t.Errorf("godwit %s is no command line, so it was not tried: %s", strings.Join(args, " "), said)
			}
			for _, sign := range []string{"connection refused", "no server", "answered 401", "operator key of"} {
				if strings.Contains(string(said), sign) {
					t.Errorf("godwit %s asked somebody else: %s", strings.Join(args, " "), said)
				}
			}
		}
		if left := content(t, empty); len(left) > 0 {
			t.Fatalf("godwit %s made files: %v", path, left)
		}
		if after := content(t, decoy); !slices.Equal(before, after) {
			t.Fatalf("godwit %s changed a data folder: %v became %v", path, before, after)
		}
	}
}

// leaves lists the paths of commands without subcommands, without the program's name.
func leaves(cmd *cobra.Command) (list []string) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if sub.HasSubCommands() {
			list = append(list, leaves(sub)...)
			continue
		}
		list = append(list, strings.TrimPrefix(sub.CommandPath(), "godwit "))
	}
	return list
}

// content lists the files of a folder with hashes of their content.
func content(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		list = append(list, path+" "+hex.EncodeToString(sum[:4]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
