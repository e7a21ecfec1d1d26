package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

func (p *program) preferencesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "preferences",
		Short: "See and set how recipients may be reached beyond their sessions",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.preferencesGetCommand(), p.preferencesSetCommand())
	return cmd
}

func (p *program) preferencesGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get RECIPIENT",
		Short: "Show a recipient's preferences",
		Args:  exactly("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				said, err := c.Preferences(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return p.line(said)
			})
		},
	}
}

func (p *program) preferencesSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set RECIPIENT JSON|@FILE",
		Short: "Replace a recipient's preferences; {} takes them back",
		Args:  exactly("recipient", "preferences"),
		RunE: func(cmd *cobra.Command, args []string) error {
			said, err := preferencesOf(args[1])
			if err != nil {
				return err
			}
			return p.withClient(func(c *godwit.Client) error {
				if err := c.SetPreferences(cmd.Context(), args[0], said); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"recipient": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "Preferences of %s are set.\n", args[0])
				return err
			})
		},
	}
}

// preferencesOf reads preferences in the API's form, from the argument or from the file that it names.
func preferencesOf(text string) (said godwit.Preferences, err error) {
	b := []byte(text)
	if file, named := strings.CutPrefix(text, "@"); named {
		if b, err = os.ReadFile(file); err != nil {
			return said, fmt.Errorf("read preferences: %w", err)
		}
		b = []byte(textfile.Plain(b))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&said); err != nil {
		return said, withHint(usagef("preferences cannot be read: %s", err), `write them like {"categories":{"promo":{"channels":[]}}}`)
	}
	return said, nil
}
