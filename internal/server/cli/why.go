package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// timelineJSON is the API's timeline of a copy.
type timelineJSON struct {
	ID      string `json:"id"`
	To      string `json:"to"`
	Status  string `json:"status"`
	Why     string `json:"why"`
	Entries []struct {
		At      time.Time `json:"at"`
		Channel string    `json:"channel"`
		Text    string    `json:"text"`
		Planned bool      `json:"planned"`
	} `json:"entries"`
}

func (p *program) whyCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "why ID --to RECIPIENT",
		Short: "Tell what happened to a recipient's copy of a notification, and why it has not arrived",
		Long: `Tell what happened to a recipient's copy of a notification, over every channel and in the order in which it happened, and in a
sentence how it stands and why. With the id of a campaign: what became of its messages to the recipient. What has ended is kept for a week, unless the server's setting retain says otherwise.`,
		Args: names("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return withHint(usagef("whose copy of %s is meant? Name the recipient with --to", args[0]), "godwit status %s lists them", args[0])
			}
			return p.withClient(func(c *godwit.Client) error {
				var raw json.RawMessage
				call := godwit.Call{Method: http.MethodGet, Path: notificationPath(args[0]) + "/timeline", Query: url.Values{"to": {to}}}
				if err := c.Call(cmd.Context(), call, &raw); err != nil {
					err = fmt.Errorf("read what happened to %s for %s: %w", args[0], to, err)
					if answer, ok := errors.AsType[*godwit.Error](err); ok && answer.Status == http.StatusNotFound {
						if told, err := p.whyCampaign(cmd.Context(), c, args[0], to); told {
							return err
						}
						return withHint(err, "was it published with the key of another app? Then it is there. godwit status %s says to whom it went in the app of this key", args[0])
					}
					return err
				}
				if p.json {
					return p.line(raw)
				}
				var t timelineJSON
				if err := json.Unmarshal(raw, &t); err != nil {
					return fmt.Errorf("read answer: %w", err)
				}
				return p.showTimeline(&t)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "whose copy")
	return cmd
}

// deliveryToJSON is the API's delivery of a campaign, as far as people need it.
type deliveryToJSON struct {
	Channel string     `json:"channel"`
	Outcome string     `json:"outcome"`
	Detail  string     `json:"detail"`
	Due     *time.Time `json:"due"`
	At      *time.Time `json:"at"`
}

// whyCampaign explains what became of a campaign's messages to a recipient. told is false if there is no such campaign.
func (p *program) whyCampaign(ctx context.Context, c *godwit.Client, id, to string) (told bool, err error) {
	call := godwit.Call{Method: http.MethodGet, Path: "/v1/campaigns/" + url.PathEscape(id) + "/deliveries", Query: url.Values{"to": {to}}}
	answer, err := c.Stream(ctx, call)
	if err != nil {
		return false, nil // the caller reports that there is no notification with the id
	}
	defer answer.Close()
	lines, err := io.ReadAll(answer) // a few: one for each endpoint of the recipient
	if err != nil {
		return true, fmt.Errorf("read answer: %w", err)
	}
	if p.json {
		_, err := p.stdout.Write(lines)
		return true, err
	}
	var b strings.Builder
	for line := range bytes.Lines(lines) {
		var d deliveryToJSON
		if err := json.Unmarshal(line, &d); err != nil {
			return true, fmt.Errorf("read answer: %w", err)
		}
		at, text := d.At, d.Channel+": "+d.Outcome
		if d.Due != nil {
			at, text = d.Due, d.Channel+": "+p.paint(faint, "will be sent")
		}
		if d.Detail != "" {
			text += ": " + clean(d.Detail)
		}
		when := time.Time{}
		if at != nil {
			when = *at
		}
		fmt.Fprintf(&b, "  %s  %s\n", moment(when), text)
	}
	if b.Len() == 0 {
		b.WriteString("  it has no message for this recipient\n")
	}
	_, err = fmt.Fprintf(p.stdout, "campaign %s for %s\n%s", id, clean(to), b.String())
	return true, err
}

func (p *program) showTimeline(t *timelineJSON) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s for %s\n", p.paint(bold, t.Status), t.ID, clean(t.To))
	for i := range t.Entries {
		e := &t.Entries[i]
		text := clean(e.Text)
		if e.Channel != "" {
			text = e.Channel + ": " + text
		}
		if e.Planned {
			text = p.paint(faint, text)
		}
		fmt.Fprintf(&b, "  %s  %s\n", moment(e.At), text)
	}
	fmt.Fprintf(&b, "%s\n", clean(t.Why))
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}
