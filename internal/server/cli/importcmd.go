package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
)

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Bring subscribers along from other services",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.importPerfectyCommand())
	return cmd
}

// importVAPID stores the app's VAPID key, with which browsers have subscribed.
func (p *program) importVAPID(cmd *cobra.Command, file, subject string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read VAPID key: %w", err)
	}
	if _, err := webpush.ParseKey(b); err != nil {
		return fmt.Errorf("read VAPID key from %s: %w", file, err)
	}
	settings := map[string]any{webpush.FieldKey: textfile.Key(b)}
	if subject != "" {
		settings["subject"] = subject
	}
	return p.withClient(func(c *godwit.Client) error {
		if err := c.SetChannel(cmd.Context(), string(push.WebPush), settings); err != nil {
			return err
		}
		if !p.json {
			fmt.Fprintf(p.stderr, "the app has the VAPID key of %s\n", file)
		}
		return nil
	})
}
