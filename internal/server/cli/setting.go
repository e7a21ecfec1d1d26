package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// settings makes the commands for one kind of an app's settings. I holds what commands show of one.
type settings[I any] struct {
	what    string // in words: sink
	path    string // of the list in the API
	columns []string
	row     func(*I) []string
}

// flags adds --app, --local and the flags of a folder.
func (o settings[I]) flags(p *program, cmd *cobra.Command, appName *string) {
	cmd.Flags().StringVar(appName, "app", "", "app of the "+o.what+" (default: the only one)")
	p.localFlags(cmd)
}

// changeFlags adds the flags of a command that changes or deletes a setting.
func (o settings[I]) changeFlags(p *program, cmd *cobra.Command, appName *string) {
	o.flags(p, cmd, appName)
	revisionFlag(cmd, o.what, o.what+" list")
}

func (o settings[I]) at(name string) string { return o.path + "/" + url.PathEscape(name) }

func (o settings[I]) listCommand(p *program, short string) *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withControl(cmd, appName, func(c *control) error {
				return list(cmd.Context(), p, c.Client, o.path, c.query, unpaged, append(slices.Clone(o.columns), "REVISION"), o.revised)
			})
		},
	}
	o.flags(p, cmd, &appName)
	return cmd
}

// revisedSetting is a setting with its revision.
type revisedSetting[I any] struct {
	of       I
	Revision string `json:"revision"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *revisedSetting[I]) UnmarshalJSON(b []byte) error {
	var only struct{ Revision string }
	if err := json.Unmarshal(b, &only); err != nil {
		return err
	}
	s.Revision = only.Revision
	return json.Unmarshal(b, &s.of)
}

func (o settings[I]) revised(s *revisedSetting[I]) []string {
	return append(o.row(&s.of), clean(s.Revision))
}

// removeCommand makes the command that removes settings; arg is what names them.
func (o settings[I]) removeCommand(p *program, arg, long string) *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "remove " + strings.ToUpper(arg),
		Short: "End a " + o.what + " and forget its settings",
		Long:  "End a " + o.what + " and forget its settings, the password included. " + long,
		Args:  exactly(arg),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withControl(cmd, appName, func(c *control) error {
				var answer json.RawMessage // empty, or what was left elsewhere
				if err := c.raw(cmd, http.MethodDelete, o.at(args[0]), &answer); err != nil {
					return fmt.Errorf("remove %s %s: %w", o.what, args[0], err)
				}
				var done struct{ Left string }
				if len(answer) > 0 && json.Unmarshal(answer, &done) == nil && done.Left != "" {
					return fmt.Errorf("%s %s is removed, but not what it had at its server: %s", o.what, args[0], done.Left)
				}
				if p.json {
					return p.line(map[string]string{"removed": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "%s %s is removed.\n", title(o.what), args[0])
				return err
			})
		},
	}
	o.changeFlags(p, cmd, &appName)
	return cmd
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func enabledText(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}
