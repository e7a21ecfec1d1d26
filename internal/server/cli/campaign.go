package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// campaignJSON holds the fields of a campaign in the API that commands show.
type campaignJSON struct {
	ID          string           `json:"id"`
	Name        string           `json:"name"`
	State       string           `json:"state"`
	Detail      string           `json:"detail"`
	Title       string           `json:"title"`
	Segment     *segmentJSON     `json:"segment"`
	Channels    []string         `json:"channels"`
	SendAt      time.Time        `json:"send_at"`
	CreatedAt   time.Time        `json:"created_at"`
	StartedAt   time.Time        `json:"started_at"`
	FinishedAt  time.Time        `json:"finished_at"`
	Revision    string           `json:"revision"`
	Enumerated  bool             `json:"enumerated"`
	Total       int64            `json:"total"`
	Counts      map[string]int64 `json:"counts"`
	Shown       int64            `json:"shown"`
	Clicked     int64            `json:"clicked"`
	NotRecalled int64            `json:"not_recalled"`
	Correction  correctionJSON   `json:"correction"`
	Variants    []variantJSON    `json:"variants"`
	Rest        *groupJSON       `json:"rest"`
	DecidesAt   time.Time        `json:"decides_at"`
	Decision    *decisionJSON    `json:"decision"`
	Rate        string           `json:"rate"`
	ETA         time.Time        `json:"eta"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *campaignJSON) UnmarshalJSON(b []byte) error {
	type plain campaignJSON
	c.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(c))
}

// outcomes lists the outcomes in the order of their display.
var outcomes = []string{"accepted", "pending", "failed", "expired", "suppressed", "unknown", "recalled"}

func (p *program) campaignCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Send one message to many: create, start, watch, pause, correct, recall",
		Args:  subcommandOnly,
		RunE:  help,
	}
	verb := func(use, short string, watch bool) *cobra.Command { return p.campaignVerb(use, short, watch) }
	cmd.AddCommand(
		p.campaignCreate(), p.campaignUpload(), p.campaignList(), p.campaignShow(), p.campaignReplace(), p.campaignStart(),
		verb("pause", "Stop a campaign where it is", false),
		verb("resume", "Let a paused campaign go on", true),
		verb("cancel", "End a campaign; what is pending is not sent", false),
		verb("recall", "Take back what was sent, as far as the channels can", true),
		p.campaignCorrect(), p.campaignClone(), p.campaignDecide(), p.campaignRetry(), p.campaignTest(), p.campaignPreview(), p.campaignWatch(), p.campaignDeliveries(), p.campaignDelete(),
	)
	return cmd
}

func (p *program) campaignCreate() *cobra.Command {
	var f campaignFlags
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a campaign, as a draft, or with --start let it go",
		Long: `Make a campaign. It is a draft until it is started; with --start it goes at once, or at --send-at, and the command
shows its progress until it ends (Ctrl-C detaches, the campaign goes on). --file takes the whole campaign as JSON, as
POST /v1/campaigns does; flags change what it says. {{name|friend}} in texts takes a subscriber's attribute. Flags with
a medium for Telegram also take @FILE: the file is uploaded first.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.createCampaign(cmd.Context(), &f) },
	}
	s := cmd.Flags()
	f.add(s)
	s.StringVar(&f.key, "idempotency-key", "", "a second create with the same key finds the first one's campaign")
	s.BoolVar(&f.start, "start", false, "start it")
	s.BoolVar(&f.detach, "detach", false, "with --start: do not wait for its end")
	return cmd
}

func (p *program) createCampaign(ctx context.Context, f *campaignFlags) error {
	spec, err := f.spec(p.stdin)
	if err != nil {
		return err
	}
	key := f.key
	if key == "" {
		key = rand.Text() // so that a retry of this request makes no second campaign
	}
	return p.withClient(func(c *godwit.Client) error {
		if err := f.uploadFiles(ctx, c, spec); err != nil {
			return err
		}
		var made campaignJSON
		if err := c.Call(ctx, godwit.Call{Method: http.MethodPost, Path: "/v1/campaigns", Body: spec, Key: key}, &made); err != nil {
			return err
		}
		if f.start {
			return p.startCampaign(ctx, c, made.ID, nil, f.detach)
		}
		return p.showCampaign(&made)
	})
}

func campaignPath(id string, more ...string) string {
	return "/v1/campaigns/" + url.PathEscape(id) + strings.Join(append([]string{""}, more...), "/")
}

func (p *program) startCampaign(ctx context.Context, c *godwit.Client, id string, body any, detach bool) error {
	return p.moveCampaign(ctx, c, id, "start", body, !detach)
}

// moveCampaign changes a campaign's state and, if that takes a while, follows it.
func (p *program) moveCampaign(ctx context.Context, c *godwit.Client, id, verb string, body any, follow bool) error {
	var now campaignJSON
	if err := c.Call(ctx, godwit.Call{Method: http.MethodPost, Path: campaignPath(id, verb), Body: body}, &now); err != nil {
		return err
	}
	if follow && !p.json && slices.Contains([]string{"scheduled", "running", "recalling", "correcting"}, now.State) {
		return p.watchCampaign(ctx, c, id)
	}
	return p.showCampaign(&now)
}

func (p *program) campaignVerb(name, short string, watch bool) *cobra.Command {
	detach := !watch
	cmd := &cobra.Command{
		Use: name + " ID", Short: short, Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error { return p.moveCampaign(cmd.Context(), c, args[0], name, nil, !detach) })
		},
	}
	if watch {
		cmd.Flags().BoolVar(&detach, "detach", false, "do not show its progress")
	}
	return cmd
}

func (p *program) campaignStart() *cobra.Command {
	var sendAt string
	var detach bool
	cmd := &cobra.Command{
		Use: "start ID", Short: "Let a campaign go, at once or at its time", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if sendAt != "" {
				at, err := parseTime(sendAt, time.Now())
				if err != nil {
					return usagef("--send-at: %w", err)
				}
				body["send_at"] = at.UTC()
			}
			return p.withClient(func(c *godwit.Client) error { return p.startCampaign(cmd.Context(), c, args[0], body, detach) })
		},
	}
	cmd.Flags().StringVar(&sendAt, "send-at", "", "when: a time, or a duration from now")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not show its progress")
	return cmd
}

func (p *program) campaignList() *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "list", Short: "List campaigns, newest first", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var l struct{ Items []campaignJSON }
				q := url.Values{"limit": {strconv.Itoa(limit)}}
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: "/v1/campaigns", Query: q}, &l); err != nil {
					return err
				}
				rows := [][]string{}
				for _, v := range l.Items {
					if p.json {
						if err := p.line(v.raw); err != nil {
							return err
						}
						continue
					}
					name := v.Name
					if name == "" {
						name = v.Title
					}
					rows = append(rows, []string{
						v.ID, v.State, clean(name), strconv.FormatInt(v.Total, 10), strconv.FormatInt(v.Counts["accepted"], 10),
						strconv.FormatInt(v.Clicked, 10), v.CreatedAt.Local().Format(time.DateTime),
					})
				}
				if p.json {
					return nil
				}
				return p.table([]string{"ID", "STATE", "NAME", "TOTAL", "ACCEPTED", "CLICKED", "CREATED"}, rows)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "most campaigns to list, up to 1000")
	return cmd
}

func (p *program) campaignShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a campaign and what became of its messages", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var v campaignJSON
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: campaignPath(args[0])}, &v); err != nil {
					return err
				}
				return p.showCampaign(&v)
			})
		},
	}
}

func (p *program) campaignRetry() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use: "retry-unknown ID", Short: "Send again what may or may not have arrived", Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var done struct {
					Retried int64 `json:"retried"`
				}
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPost, Path: campaignPath(args[0], "retry-unknown")}, &done); err != nil {
					return err
				}
				if p.json {
					return p.line(done)
				}
				fmt.Fprintf(p.stdout, "%d messages are sent again.\n", done.Retried)
				if detach || done.Retried == 0 {
					return nil
				}
				return p.watchCampaign(cmd.Context(), c, args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not show its progress")
	return cmd
}

func (p *program) campaignDelete() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID", Short: "Delete a draft, or a campaign that has ended, and its report", Args: exactly("id")}
	revisionFlag(cmd, "campaign", "campaign show")
	return p.deletes(cmd, "campaign", func(id string) string { return campaignPath(id) }, "Campaign %s is deleted.")
}

// showCampaign prints a campaign with its counts.
func (p *program) showCampaign(v *campaignJSON) error {
	if p.json {
		return p.line(v.raw)
	}
	name := v.Name
	if name == "" {
		name = v.Title
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", p.paint(bold, v.ID), clean(name), p.paint(stateColour(v.State), v.State))
	if v.Detail != "" {
		fmt.Fprintf(&b, "  %s\n", clean(v.Detail))
	}
	if v.State == "scheduled" {
		fmt.Fprintf(&b, "  begins %s\n", v.SendAt.Local().Format(time.DateTime))
	}
	if v.State == "draft" || v.State == "scheduled" {
		fmt.Fprintf(&b, "  revision %s\n", clean(v.Revision))
	}
	if v.Segment != nil {
		fmt.Fprintf(&b, "  to segment %s: %s\n", clean(v.Segment.Name), clean(v.Segment.Where))
	}
	if v.Total > 0 {
		fmt.Fprintf(&b, "  %s\n  shown %d, clicked %d\n", countsText(v.Counts), v.Shown, v.Clicked)
	}
	v.showVariants(&b)
	if text := v.Correction.text(v.ID); text != "" {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	if v.NotRecalled > 0 {
		fmt.Fprintf(&b, "  %d could not be taken back; godwit campaign deliveries %s says why\n", v.NotRecalled, v.ID)
	}
	if n := v.Counts["unknown"]; n > 0 {
		fmt.Fprintf(&b, "  %d may or may not have arrived; godwit campaign retry-unknown %s sends them again\n", n, v.ID)
	}
	_, err := io.WriteString(p.stdout, b.String())
	return err
}

func stateColour(state string) string {
	switch state {
	case "failed", "cancelled", "paused":
		return red
	}
	return green
}

func countsText(counts map[string]int64) string {
	var parts []string
	for _, o := range outcomes {
		if n := counts[o]; n > 0 || o == "accepted" {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

var errCampaignFailed = errors.New("the campaign did not reach its end")
