package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/feeds/source"
)

func (p *program) sourcePreviewCommand() *cobra.Command {
	var appName, kindName string
	cmd := &cobra.Command{
		Use:   "preview NAME",
		Short: "Show what the rows of a source's tables would become",
		Long: `Show what the first rows of each mapped table would become: the notification or object, or why the row would go to quarantine.
Nothing is published, stored or made at the server. Flags are those of "godwit source add"; settings that are not named are those of the
source, if there is one.`,
		Args: exactly("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withControl(cmd, appName, func(c *control) error {
				_, values, err := p.sourceBody(cmd, c, args[0], kindName)
				if err != nil {
					return err
				}
				var body any // none: as the source is stored
				if len(values) > 0 {
					body = values
				}
				var preview source.Preview
				if err := c.call(cmd, http.MethodPost, p.sources().at(args[0])+"/preview", body, &preview); err != nil {
					return fmt.Errorf("preview source %s: %w", args[0], err)
				}
				return p.showSourcePreview(&preview)
			})
		},
	}
	p.sourceFlags(cmd, &kindName)
	p.sources().flags(p, cmd, &appName)
	return cmd
}

func (p *program) showSourcePreview(preview *source.Preview) error {
	if p.json {
		if err := p.line(preview); err != nil {
			return err
		}
	}
	if preview.Error != "" {
		return errors.New(clean(preview.Error))
	}
	if p.json {
		return nil
	}
	if len(preview.Tables) == 0 {
		_, err := fmt.Fprintln(p.stdout, "The source maps no tables.")
		return err
	}
	for i := range preview.Tables {
		if err := printSample(p.stdout, &preview.Tables[i]); err != nil {
			return err
		}
	}
	return nil
}

// printSample prints a table: each row, and below it what it would become.
func printSample(to io.Writer, t *source.PreviewTable) error {
	lines := []string{clean(t.Table)}
	if len(t.Rows) == 0 && t.Error == "" {
		lines = append(lines, "  has no rows")
	}
	for _, row := range t.Rows {
		lines = append(lines, "  row      "+clean(string(row.From)))
		if row.Error != "" {
			lines = append(lines, "  refused  "+clean(row.Error))
		} else {
			lines = append(lines, "  becomes  "+clean(string(row.Entry)))
		}
	}
	if t.Error != "" {
		lines = append(lines, "  error    "+clean(t.Error))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}
