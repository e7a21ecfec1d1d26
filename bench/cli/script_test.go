package cli_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"godwit.dev/godwit/bench/cli"
	godwit "godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/testkit/script"
)

// The programs are in one folder, as in an installation.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		command.ServerProgram: func() { os.Exit(command.Main(godwit.Run)) },
		command.BenchProgram:  func() { os.Exit(command.Main(cli.Run)) },
		"dying-broker":        dyingBroker,
	})
}

func TestScripts(t *testing.T) { testscript.Run(t, script.Params()) }
