package cli

import (
	"io"
	"regexp"
	"strings"
	"testing"
)

// words splits a line as a shell does with quotes, and omits redirections.
func words(line string) (list []string) {
	line, _, _ = strings.Cut(line, " < ")
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		list = append(list, strings.Trim(w, `'"`))
	}
	return list
}

func TestExamplesAreCommandsThatExist(t *testing.T) {
	topics := exampleTopics()
	if len(topics) < 10 {
		t.Fatalf("%d topics", len(topics))
	}
	for _, topic := range topics {
		for line := range strings.SplitSeq(topic.commands, "\n") {
			args := words(line)
			if len(args) < 2 || args[0] != "godwit" {
				t.Errorf("%s: %q is no command", topic.name, line)
				continue
			}
			root := (&program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}).root()
			cmd, rest, err := root.Find(args[1:])
			if err != nil || cmd == root {
				t.Errorf("%s: %s: %v", topic.name, line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", topic.name, line, err)
				continue
			}
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", topic.name, line, err)
			}
		}
	}
}
