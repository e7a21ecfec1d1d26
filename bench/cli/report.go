package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/internal/server/cli/command"
)

func (b *bench) show(r *report.Result) error {
	if err := b.draw(r.Scenario, r); err != nil {
		return err
	}
	if b.json {
		return command.Line(b.stdout, r)
	}
	return report.WriteTable(b.stdout, r)
}

// draw writes the HTML page and the plots that flags requested.
func (b *bench) draw(prefix string, results ...*report.Result) error {
	if b.svg != "" {
		for i, r := range results {
			name := prefix
			if len(results) > 1 {
				name = fmt.Sprintf("%s-%d", prefix, i+1)
			}
			if _, err := report.WriteSVG(b.svg, name, r); err != nil {
				return err
			}
		}
	}
	if b.report == "" {
		return nil
	}
	var page bytes.Buffer
	if err := report.WriteHTML(&page, results...); err != nil {
		return err
	}
	if err := os.WriteFile(b.report, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// reportCommand draws earlier measurements.
func (b *bench) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report FILE...",
		Short: "Make a page or plots of results that were saved with --json",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || b.report == "" && b.svg == "" {
				return command.Usagef("name files with results, and --report or --svg")
			}
			var results []*report.Result
			for _, file := range args {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				var r report.Result
				if err := json.Unmarshal(text, &r); err != nil {
					return fmt.Errorf("read %s: %w", file, err)
				}
				results = append(results, &r)
			}
			return b.draw(results[0].Scenario, results...)
		},
	}
}
