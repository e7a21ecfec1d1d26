package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"godwit": func() { os.Exit(command.Main(cli.Run)) }})
}

func TestScripts(t *testing.T) {
	p := script.Params()
	maps.Copy(p.Cmds, map[string]func(*testscript.TestScript, bool, []string){
		"listening": listening,
		"setfrom":   setFrom,
		"soon":      soon,
		"shows":     shows,
		"mistake":   mistake,

		"certificate": certificate,
		"bot":         bot,
	})
	testscript.Run(t, p)
}

// patience limits waits for things that take milliseconds.
const patience = 2 * time.Minute

// sometime polls for a condition that another process fulfils.
func sometime(ts *testscript.TestScript, what string, ok func() bool) {
	if !eventually.Holds(ok) {
		ts.Fatalf("%s: still not so after %s", what, eventually.Patience)
	}
}

// listening DATA waits until the server of a data folder listens, and stores its addresses in GODWIT_URL and GRPC.
func listening(ts *testscript.TestScript, _ bool, args []string) {
	sometime(ts, "a server listens", func() bool {
		a, err := datadir.ReadAddresses(ts.MkAbs(args[0]))
		ts.Setenv("GODWIT_URL", "http://"+a.HTTP)
		ts.Setenv("HTTP", a.HTTP)
		ts.Setenv("PORT", a.HTTP[strings.LastIndex(a.HTTP, ":")+1:])
		ts.Setenv("GRPCPORT", a.GRPC[strings.LastIndex(a.GRPC, ":")+1:])
		ts.Setenv("GRPC", a.GRPC)
		return err == nil
	})
}

// bot starts a server in Telegram's place. It stores its URL in BOT, and the bot's token in the file token.
func bot(ts *testscript.TestScript, _ bool, _ []string) {
	const token = "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
	s := botserver.Start(botserver.Options{Token: token})
	ts.Defer(s.Close)
	ts.Setenv("BOT", s.URL)
	ts.Check(os.WriteFile(ts.MkAbs("token"), []byte(token), 0o600))
}

// setfrom VAR FILE [FIELD] sets a variable to a file's text, or to a field of the JSON in it.
func setFrom(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if len(args) == 3 {
		var v map[string]any
		ts.Check(json.Unmarshal([]byte(text), &v))
		s, ok := v[args[2]].(string)
		if !ok {
			ts.Fatalf("%s has no text field %s", text, args[2])
		}
		text = s
	}
	ts.Setenv(args[0], text)
}

// mistake CAUSE HINT ARGS... runs the program with arguments that it must refuse, and checks that its error contains the cause and its
// hint.
func mistake(ts *testscript.TestScript, _ bool, args []string) {
	if ts.Exec("godwit", args[2:]...) == nil {
		ts.Fatalf("godwit %s is no mistake", strings.Join(args[2:], " "))
	}
	said := ts.ReadFile("stderr")
	for i, begin := range []string{"(?m)^godwit: .*", "(?m)^hint: .*"} {
		if want := begin + "(?:" + args[i] + ")"; !regexp.MustCompile(want).MatchString(said) {
			ts.Fatalf("godwit %s: nothing like %s in\n%s", strings.Join(args[2:], " "), want, said)
		}
	}
}

// shows REGEXP ARGS... runs the program again and again until a line of its output matches.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	sometime(ts, "godwit "+strings.Join(args[1:], " ")+" shows "+args[0], func() bool {
		return ts.Exec("godwit", args[1:]...) == nil && want.MatchString(ts.ReadFile("stdout"))
	})
}

// soon ARGS... runs the program again and again until it succeeds, or with ! until it fails.
func soon(ts *testscript.TestScript, neg bool, args []string) {
	sometime(ts, "godwit "+strings.Join(args, " "), func() bool { return (ts.Exec("godwit", args...) != nil) == neg })
}
