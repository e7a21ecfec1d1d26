package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"

	"godwit.dev/godwit/internal/server/cli/command"
)

func (p *program) campaignWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Show a campaign's progress until it ends; Ctrl-C detaches", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error { return p.watchCampaign(cmd.Context(), c, args[0]) })
		},
	}
}

// watchAgain is the pause before a new connection after the feed was interrupted.
const watchAgain = time.Second

// watchCampaign shows progress until the campaign has ended or is paused. If the command is interrupted, the campaign continues.
func (p *program) watchCampaign(ctx context.Context, c *godwit.Client, id string) error {
	bar := progress{p: p, live: !p.json && command.Terminal(p.stdout)}
	for {
		last, err := p.followCampaign(ctx, c, id, &bar)
		switch {
		case ctx.Err() != nil:
			bar.end()
			p.note("detached; the campaign goes on. godwit campaign watch %s shows it again, godwit campaign pause %s stops it", id, id)
			return nil
		case last != nil:
			bar.end()
			if err := p.showCampaign(last); err != nil {
				return err
			}
			if last.State == "failed" || last.State == "paused" {
				return withHint(errCampaignFailed, "it is %s; godwit campaign resume %s lets it go on", last.State, id)
			}
			return nil
		case err != nil:
			var refused *godwit.Error
			if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
				bar.end()
				return err
			}
			bar.end()
			p.note("%v; next try in %s", err, watchAgain)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// followCampaign reads one feed. last is the campaign in a state that it does not leave by itself; nil: the feed was interrupted.
func (p *program) followCampaign(ctx context.Context, c *godwit.Client, id string, bar *progress) (last *campaignJSON, err error) {
	body, err := c.Stream(ctx, godwit.Call{Method: http.MethodGet, Path: campaignPath(id, "events"), Accept: "text/event-stream"})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	event := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var v campaignJSON
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return nil, fmt.Errorf("read progress: %w", err)
		}
		if err := bar.show(&v); err != nil {
			return nil, err
		}
		if event == "end" || v.State == "paused" {
			return &v, nil
		}
	}
	return nil, lines.Err()
}

// progress is a line that is redrawn on a terminal. Elsewhere a line is printed when the state changes; with --json, for each reading.
type progress struct {
	p     *program
	live  bool
	drawn bool
	state string
}

func (b *progress) show(v *campaignJSON) error {
	switch {
	case b.p.json:
		return b.p.line(v.raw)
	case b.live:
		b.drawn = true
		_, err := fmt.Fprintf(b.p.stdout, "\r\x1b[K%s", progressLine(v, time.Now()))
		return err
	case v.State != b.state:
		b.state = v.State
		_, err := fmt.Fprintln(b.p.stdout, progressLine(v, time.Now()))
		return err
	}
	return nil
}

// end leaves the line.
func (b *progress) end() {
	if b.drawn {
		fmt.Fprint(b.p.stdout, "\r\x1b[K")
		b.drawn = false
	}
}

const barWidth = 24

// progressLine returns a campaign's progress in one line: ██████░░░░ 61 % 1,220 of 2,000, 29.1/s, 27 s left.
func progressLine(v *campaignJSON, now time.Time) string {
	done, all := v.Total-v.Counts["pending"], v.Total
	switch v.State {
	case "scheduled":
		return fmt.Sprintf("scheduled: begins in %s", v.SendAt.Sub(now).Round(time.Second))
	case "recalling":
		done = v.Counts["recalled"] + v.NotRecalled
	case "correcting":
		done, all = v.Correction.Corrected+v.Correction.NotCorrected, v.Correction.Messages
	}
	share := 0.0
	if all > 0 {
		share = min(float64(done)/float64(all), 1)
	}
	full := int(share * barWidth)
	of := fmt.Sprintf("%d of %d", done, all)
	if !v.Enumerated && v.State != "correcting" {
		of = fmt.Sprintf("%d of %d or more", done, v.Total)
	}
	line := fmt.Sprintf("%s%s %3.0f %% %s, %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, of, v.State)
	if v.State == "running" {
		line += ", " + v.Rate
		if v.ETA.After(now) {
			line += fmt.Sprintf(", %s left", v.ETA.Sub(now).Round(time.Second))
		}
		if v.Decision == nil && v.DecidesAt.After(now) {
			line += fmt.Sprintf(", decides in %s", v.DecidesAt.Sub(now).Round(time.Second))
		}
	}
	for _, o := range []string{"failed", "unknown", "suppressed", "expired"} {
		if n := v.Counts[o]; n > 0 {
			line += fmt.Sprintf(", %d %s", n, o)
		}
	}
	return line
}

func (p *program) campaignDeliveries() *cobra.Command {
	var outcome, format, output string
	cmd := &cobra.Command{
		Use: "deliveries ID", Short: "Print what became of each message, as NDJSON or CSV", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				q := url.Values{}
				for name, v := range map[string]string{"outcome": outcome, "format": format} {
					if v != "" {
						q.Set(name, v)
					}
				}
				body, err := c.Stream(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: campaignPath(args[0], "deliveries"), Query: q})
				if err != nil {
					return err
				}
				defer body.Close()
				if output == "" {
					_, err = io.Copy(p.stdout, body)
					return err
				}
				return writeFile(output, body)
			})
		},
	}
	cmd.Flags().StringVar(&outcome, "outcome", "", "only these: pending, accepted, failed, expired, suppressed, unknown, recalled")
	cmd.Flags().StringVar(&format, "format", "", "ndjson or csv (default: ndjson)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file")
	return cmd
}

func writeFile(name string, from io.Reader) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, from)
	return err
}

func (p *program) campaignTest() *cobra.Command {
	var endpoints []string
	cmd := &cobra.Command{
		Use: "test ID --endpoint ID", Short: "Send a campaign to some endpoints only, at once", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(endpoints) == 0 {
				return usagef("--endpoint is missing: who is to get the test?")
			}
			return p.withClient(func(c *godwit.Client) error {
				var done struct {
					Results []struct {
						Endpoint string `json:"endpoint"`
						Channel  string `json:"channel"`
						Outcome  string `json:"outcome"`
						Detail   string `json:"detail"`
					} `json:"results"`
				}
				call := godwit.Call{Method: http.MethodPost, Path: campaignPath(args[0], "test"), Body: map[string]any{"endpoints": endpoints}}
				if err := c.Call(cmd.Context(), call, &done); err != nil {
					return err
				}
				failed := 0
				for _, r := range done.Results {
					if r.Outcome != "accepted" {
						failed++
					}
					if p.json {
						if err := p.line(r); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(p.stdout, "%s %s %s\n", r.Outcome, r.Endpoint, clean(r.Detail))
				}
				if failed > 0 {
					return fmt.Errorf("%d of %d tests were not accepted", failed, len(done.Results))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&endpoints, "endpoint", nil, "id of an endpoint; up to 20")
	return cmd
}

func (p *program) campaignPreview() *cobra.Command {
	var endpoint, locale, channel string
	var attributes map[string]string
	cmd := &cobra.Command{
		Use: "preview ID", Short: "Show what somebody would get, and how many are meant", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			for name, v := range map[string]string{"endpoint": endpoint, "locale": locale, "channel": channel} {
				if v != "" {
					body[name] = v
				}
			}
			if len(attributes) > 0 {
				body["attributes"] = attributes
			}
			return p.withClient(func(c *godwit.Client) error {
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPost, Path: campaignPath(args[0], "preview"), Body: body}, &raw); err != nil {
					return err
				}
				if p.json {
					return p.line(raw)
				}
				return p.showPreview(raw)
			})
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "as the subscriber of this endpoint gets it")
	cmd.Flags().StringVar(&locale, "locale", "", "in this language")
	cmd.Flags().StringVar(&channel, "channel", "", "as this channel sends it")
	cmd.Flags().StringToStringVar(&attributes, "attribute", nil, "with these attributes: name=Ada")
	return cmd
}

func (p *program) showPreview(raw json.RawMessage) error {
	var v struct {
		Content  struct{ Title, Body, URL string }
		Audience struct {
			Total     int64            `json:"total"`
			ByChannel map[string]int64 `json:"by_channel"`
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	for _, text := range []string{p.paint(bold, clean(v.Content.Title)), clean(v.Content.Body), clean(v.Content.URL)} {
		if text != "" {
			fmt.Fprintln(p.stdout, text)
		}
	}
	_, err := fmt.Fprintf(p.stdout, "\n%d endpoints\n", v.Audience.Total)
	return err
}
