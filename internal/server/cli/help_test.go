package cli

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/modules"
)

// leastExamples is the number of examples in a command's help.
const leastExamples = 3

// lowest lists the commands that have none below them.
func lowest(cmd *cobra.Command) (list []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Hidden || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help" || sub.Name() == "completion":
		case sub.HasSubCommands() && !sub.Runnable():
			list = append(list, lowest(sub)...)
		case sub.HasSubCommands():
			list = append(append(list, lowest(sub)...), sub)
		default:
			list = append(list, sub)
		}
	}
	return list
}

var beforeCommand = regexp.MustCompile(`^(?:\w+=\S+ )*(?:docker exec godwit )?(godwit .*)$`)

// calls returns the calls of godwit in a line of a shell.
func calls(line string) (list []string) {
	for _, part := range regexp.MustCompile(` \| | && `).Split(line, -1) {
		if m := beforeCommand.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
			list = append(list, regexp.MustCompile(` [<>] \S+$`).ReplaceAllString(m[1], ""))
		}
	}
	return list
}

// accepts returns the command that a call runs, or why the program does not take it.
func accepts(call string) (string, error) {
	root := (&program{modules: modules.All(), stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}).root()
	cmd, rest, err := root.Find(words(call)[1:])
	if err != nil || cmd.DisableFlagParsing { // godwit-bench reads its own
		return cmd.CommandPath(), err
	}
	if err = cmd.ParseFlags(rest); err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	return cmd.CommandPath(), err
}

func TestHelpOfEachCommandHasExamplesThatWork(t *testing.T) {
	commands := lowest(whole(modules.All()))
	if len(commands) < 90 {
		t.Errorf("only %d commands are walked", len(commands))
	}
	for _, cmd := range commands {
		if cmd.Example == "" && cmd.HasSubCommands() {
			continue // its subcommands have them
		}
		lines := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		if len(lines) < leastExamples {
			t.Errorf("the help of %s has %d examples", cmd.CommandPath(), len(lines))
		}
		seen := map[string]bool{}
		for _, line := range lines {
			line = strings.TrimSpace(line)
			if seen[line] {
				t.Errorf("%s: %s is there twice", cmd.CommandPath(), line)
			}
			seen[line] = true
			of := false
			for _, call := range calls(line) {
				path, err := accepts(call)
				if err != nil {
					t.Errorf("%s: %s: %v", cmd.CommandPath(), call, err)
				}
				of = of || path == cmd.CommandPath()
			}
			if !of {
				t.Errorf("%s: %s is no example of it", cmd.CommandPath(), line)
			}
		}
	}
}

func TestExamplesAreOfCommandsThatExist(t *testing.T) {
	root := whole(modules.All())
	for part := range strings.SplitSeq(helpText, "\n\n") {
		path, _, _ := strings.Cut(strings.TrimPrefix(part, "# "), "\n")
		if below(root, path) == nil {
			t.Errorf("there are examples of %q, which is no command", path)
		}
	}
	for call, want := range map[string]string{"godwit publish ann --tittle x": "unknown flag", "godwit nothing": "no command", "godwit status": "missing its id"} {
		if _, err := accepts(call); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is taken for an example: %v", call, err)
		}
	}
}
