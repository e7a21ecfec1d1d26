package cli

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
)

// variantJSON holds the fields of a variant in the API that commands show.
type variantJSON struct {
	Name  string `json:"name"`
	Share int    `json:"share"`
	Title string `json:"title"`
	groupJSON
}

// groupJSON are the figures of a part of an audience.
type groupJSON struct {
	Total   int64            `json:"total"`
	Counts  map[string]int64 `json:"counts"`
	Shown   int64            `json:"shown"`
	Clicked int64            `json:"clicked"`
}

type decisionJSON struct {
	At      time.Time `json:"at"`
	Variant string    `json:"variant"`
	Reason  string    `json:"reason"`
}

// variantFlags are the flags for a second variant, and for the time of the day where recipients are.
type variantFlags struct {
	title, body, link, template     string
	share                           int
	metric, after                   string
	localTime, localZone, localPast string
}

func (f *variantFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.title, "b-title", "", "title of a second variant, which is compared with the first")
	s.StringVar(&f.body, "b-body", "", "text of the second variant (what it does not say of its own is as in the first)")
	s.StringVar(&f.link, "b-link", "", "URL that a click on the second variant opens")
	s.StringVar(&f.template, "b-template", "", "template of the second variant")
	s.IntVar(&f.share, "share", 0, "percent of the audience that gets each variant (default 50: everybody)")
	s.StringVar(&f.metric, "metric", "", "what makes a variant the better one: clicks (default) or shown")
	s.StringVar(&f.after, "decide-after", "", "how long after both were sent the rest gets the better one: 4h")
	s.StringVar(&f.localTime, "local-time", "", "in the place of --send-at: date and time of the day where each recipient is, 2026-12-01T09:00")
	s.StringVar(&f.localZone, "local-fallback", "", "with --local-time: time zone of recipients who have none, for --quiet-hours too (default UTC)")
	s.StringVar(&f.localPast, "local-passed", "", "with --local-time: next_day (default) or now, for those for whom it has passed")
}

// into adds what the flags say to a request's body.
func (f *variantFlags) into(spec, content map[string]any) error {
	if f.localTime != "" {
		local := map[string]any{"at": f.localTime}
		for name, value := range map[string]string{"fallback": f.localZone, "passed": f.localPast} {
			if value != "" {
				local[name] = value
			}
		}
		spec["local_time"] = local
	} else if f.localZone != "" || f.localPast != "" {
		return usagef("--local-fallback and --local-passed go with --local-time")
	}
	for name, value := range map[string]string{"metric": f.metric, "decide_after": f.after} {
		if value != "" {
			spec[name] = value
		}
	}
	own := f.title != "" || f.body != "" || f.link != ""
	switch {
	case !own && f.template == "" && f.share == 0:
		return nil
	case !own && f.template == "":
		return usagef("--share is how many get each variant; say what the second one says with --b-title, --b-body or --b-template")
	case own && f.template != "":
		return usagef("the second variant has a template or texts, not both")
	}
	share := f.share
	if share == 0 {
		share = 50
	}
	second := map[string]any{"share": share}
	if f.template != "" {
		second["template"] = f.template
	} else {
		b := maps.Clone(content)
		for name, value := range map[string]string{"title": f.title, "body": f.body, "url": f.link} {
			if value != "" {
				b[name] = value
			}
		}
		second["content"] = b
	}
	spec["variants"] = []any{map[string]any{"share": share}, second}
	return nil
}

func (p *program) campaignDecide() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use: "decide ID A|B", Short: "Choose the variant that the rest of the audience gets", Args: exactly("id", "variant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"variant": strings.ToUpper(args[1])}
			return p.withClient(func(c *godwit.Client) error {
				return p.moveCampaign(cmd.Context(), c, args[0], "decide", body, !detach)
			})
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not show its progress")
	return cmd
}

// showVariants prints the figures by variant.
func (c *campaignJSON) showVariants(w io.Writer) {
	line := func(name string, g *groupJSON) {
		fmt.Fprintf(w, "  %s: %s; shown %d, clicked %d\n", name, countsText(g.Counts), g.Shown, g.Clicked)
	}
	for i := range c.Variants {
		v := &c.Variants[i]
		line(fmt.Sprintf("%s (%d %%, %s)", v.Name, v.Share, clean(v.Title)), &v.groupJSON)
	}
	if c.Rest == nil {
		return
	}
	line("the rest", c.Rest)
	switch {
	case c.Decision != nil:
		fmt.Fprintf(w, "  the rest gets %s: %s\n", c.Decision.Variant, clean(c.Decision.Reason))
	case !c.DecidesAt.IsZero():
		fmt.Fprintf(w, "  it decides %s; godwit campaign decide %s A decides now\n", c.DecidesAt.Local().Format(time.DateTime), c.ID)
	}
}
