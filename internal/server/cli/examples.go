package cli

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// examplesText contains, for each topic, a line "# topic: description" and commands.
//
//go:embed examples.txt
var examplesText string

// exampleTopic holds the examples of one topic.
type exampleTopic struct{ name, about, commands string }

// exampleTopics reads the examples.
func exampleTopics() (list []exampleTopic) {
	for part := range strings.SplitSeq("\n"+examplesText, "\n# ") {
		head, commands, _ := strings.Cut(part, "\n")
		if name, about, ok := strings.Cut(head, ": "); ok {
			list = append(list, exampleTopic{name, about, strings.TrimSpace(commands)})
		}
	}
	return list
}

func (p *program) examplesCommand() *cobra.Command {
	topics := exampleTopics()
	var known []string
	for _, t := range topics {
		known = append(known, t.name)
	}
	return &cobra.Command{
		Use:       "examples [TOPIC]",
		Short:     "Show commands to copy, by topic",
		ValidArgs: known,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return nil
			}
			return exactly("topic")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return p.listExamples(topics)
			}
			for _, t := range topics {
				if t.name == args[0] {
					return p.showExamples(t)
				}
			}
			return withHint(usagef("there are no examples of %s", args[0]), "there are examples of %s", strings.Join(known, ", "))
		},
	}
}

func (p *program) listExamples(topics []exampleTopic) error {
	rows := [][]string{}
	for _, t := range topics {
		if p.json {
			if err := p.line(map[string]string{"topic": t.name, "about": t.about}); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{t.name, t.about})
	}
	if p.json {
		return nil
	}
	if err := p.table([]string{"TOPIC", "ABOUT"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "\ngodwit examples %s shows commands to copy.\n", topics[0].name)
	return err
}

func (p *program) showExamples(t exampleTopic) error {
	if p.json {
		return p.line(map[string]any{"topic": t.name, "about": t.about, "commands": strings.Split(t.commands, "\n")})
	}
	_, err := fmt.Fprintf(p.stdout, "# %s\n%s\n", t.about, t.commands)
	return err
}
