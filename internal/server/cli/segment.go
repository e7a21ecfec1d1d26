package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// segmentJSON holds the fields of a segment in the API that commands show.
type segmentJSON struct {
	Name        string    `json:"name"`
	Where       string    `json:"where"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updated_at"`
	Revision    string    `json:"revision"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *segmentJSON) UnmarshalJSON(b []byte) error {
	type plain segmentJSON
	s.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(s))
}

func segmentPath(name string) string { return "/v1/segments/" + url.PathEscape(name) }

func (p *program) segmentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "segment",
		Short: "Keep expressions that pick endpoints under names",
		Long: `Keep expressions that pick endpoints under names, for campaigns, counts and exports. A segment has no members of its own: whoever
uses it reads its expression at that moment. A campaign does so when it begins to send.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.segmentList(), p.segmentShow(), p.segmentSet(), p.segmentCount(), p.segmentDelete())
	return cmd
}

func (p *program) segmentList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the app's segments", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/segments", nil, unpaged, []string{"SEGMENT", "WHERE", "DESCRIPTION"}, func(s *segmentJSON) []string {
					return []string{s.Name, clean(s.Where), clean(s.Description)}
				})
			})
		},
	}
}

func (p *program) segmentShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a segment's expression", Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.callSegment(cmd, godwit.Call{Method: http.MethodGet, Path: segmentPath(args[0])}, "read segment "+args[0])
		},
	}
}

// callSegment makes a call that returns a segment and shows the segment.
func (p *program) callSegment(cmd *cobra.Command, call godwit.Call, doing string) error {
	return p.withClient(func(c *godwit.Client) error {
		var s segmentJSON
		if err := c.Call(cmd.Context(), call, &s); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if p.json {
			return p.line(s.raw)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n  %-12s%s\n", p.paint(bold, s.Name), "where", clean(s.Where))
		if s.Description != "" {
			fmt.Fprintf(&b, "  %-12s%s\n", "description", clean(s.Description))
		}
		fmt.Fprintf(&b, "  %-12s%s\n  %-12s%s\n", "changed", moment(s.UpdatedAt), "revision", clean(s.Revision))
		_, err := fmt.Fprint(p.stdout, b.String())
		return err
	})
}

func (p *program) segmentSet() *cobra.Command {
	var where, description string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store an expression under a name, in place of what was there",
		Long: `Store an expression under a name, in place of what was there. Campaigns that use the segment and have not begun will take the new
expression.`,
		Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if where == "" {
				return withHint(usagef("segment %s has no expression", args[0]), `give one: godwit segment set %s --where 'city = "Oslo" and age >= 18'`, args[0])
			}
			body := map[string]string{"where": where, "description": description}
			return p.callSegment(cmd, godwit.Call{Method: http.MethodPut, Path: segmentPath(args[0]), Body: body, IfMatch: atRevision(cmd)}, "set segment "+args[0])
		},
	}
	cmd.Flags().StringVar(&where, "where", "", `whom it picks, like 'city = "Oslo" and age >= 18'`)
	cmd.Flags().StringVar(&description, "description", "", "whom it picks, in words")
	revisionFlag(cmd, "segment", "segment show")
	return cmd
}

func (p *program) segmentCount() *cobra.Command {
	return &cobra.Command{
		Use: "count NAME", Short: "Count the active endpoints of a segment, as a campaign would reach them now", Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var n godwit.AudienceCount
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: segmentPath(args[0]) + "/count"}, &n); err != nil {
					return fmt.Errorf("count segment %s: %w", args[0], err)
				}
				if p.json {
					return p.line(n)
				}
				return p.printCount(cmd.Context(), n)
			})
		},
	}
}

func (p *program) segmentDelete() *cobra.Command {
	cmd := &cobra.Command{Use: "delete NAME", Short: "Delete a segment that no waiting campaign uses", Args: names("name")}
	revisionFlag(cmd, "segment", "segment show")
	return p.deletes(cmd, "segment", segmentPath, "Segment %s is deleted.")
}
