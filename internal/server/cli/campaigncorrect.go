package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
)

// correctionJSON is the API's data about the last correction of a campaign; a zero time means that there was none.
type correctionJSON struct {
	At           time.Time `json:"at"`
	Messages     int64     `json:"messages"`
	Corrected    int64     `json:"corrected"`
	NotCorrected int64     `json:"not_corrected"`
	Kept         int64     `json:"kept"`
}

// text describes its progress.
func (k *correctionJSON) text(id string) string {
	if k.At.IsZero() {
		return ""
	}
	text := fmt.Sprintf("%d of %d messages in Telegram are corrected", k.Corrected, k.Messages)
	if k.Kept > 0 {
		text += fmt.Sprintf("; %d elsewhere stay as they are", k.Kept)
	}
	if k.NotCorrected > 0 {
		text += fmt.Sprintf("; %d could not be: godwit campaign deliveries %s says why", k.NotCorrected, id)
	}
	return text
}

// says adds the flags for a message's content.
func (f *campaignFlags) says(s *pflag.FlagSet) {
	s.StringVar(&f.template, "template", "", "template whose content is taken, as it is now")
	s.StringArrayVar(&f.vars, "var", nil, "variable of the texts, the same for everybody, NAME=VALUE (repeatable)")
	s.StringVar(&f.title, "title", "", "title of the message")
	s.StringVar(&f.body, "body", "", "text of the message")
	s.StringVar(&f.category, "category", "", "category of the message, whose campaign limit holds")
	s.StringVar(&f.url, "link", "", "URL that a click opens")
	s.StringVar(&f.parseMode, "parse-mode", "", "Telegram: the texts are HTML, MarkdownV2 or Markdown")
	s.StringArrayVar(&f.buttons, "button", nil, "Telegram: a button below the message, TEXT=URL, or TEXT=callback:NAME for one that reports (repeatable)")
	s.BoolVar(&f.noPreview, "no-preview", false, "Telegram: no preview of links")
}

func (p *program) campaignCorrect() *cobra.Command {
	var f campaignFlags
	var detach bool
	cmd := &cobra.Command{
		Use:   "correct ID",
		Short: "Change what messages say that were sent over Telegram",
		Long: `Edit the messages that a campaign has sent over Telegram: they say from then on what is given here, with these
buttons or none; photos, videos and files stay. What was sent to browsers, phones and elsewhere stays as it is. The
campaign must have ended. --file takes content, template and variables as JSON, also from the file of a whole campaign.`,
		Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := f.correction(p.stdin)
			if err != nil {
				return err
			}
			return p.withClient(func(c *godwit.Client) error {
				return p.moveCampaign(cmd.Context(), c, args[0], "correct", body, !detach)
			})
		},
	}
	f.says(cmd.Flags())
	cmd.Flags().StringVar(&f.file, "file", "", "what they are to say as JSON; - reads standard input")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not show its progress")
	return cmd
}

// correction makes the request's body: the new content of a campaign's messages.
func (f *campaignFlags) correction(stdin io.Reader) (map[string]any, error) {
	spec, err := f.spec(stdin)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	for _, name := range []string{"content", "template", "variables"} {
		if v, ok := spec[name]; ok {
			body[name] = v
		}
	}
	if content, ok := body["content"].(map[string]any); ok && len(content) == 0 {
		return nil, usagef("what are the messages to say? --title, --body, --template or --file")
	}
	return body, nil
}
