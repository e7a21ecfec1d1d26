package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// templateJSON holds the fields of a template in the API that commands show.
type templateJSON struct {
	Name      string   `json:"name"`
	Revision  int64    `json:"revision"`
	Title     string   `json:"title"`
	Language  string   `json:"language"`
	Locales   []string `json:"locales"`
	Variables []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"variables"`
	Content   json.RawMessage `json:"content"`
	UpdatedAt time.Time       `json:"updated_at"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *templateJSON) UnmarshalJSON(b []byte) error {
	type plain templateJSON
	t.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(t))
}

func (t *templateJSON) languages() string {
	list := t.Locales
	if t.Language != "" {
		list = append([]string{t.Language}, list...)
	}
	return strings.Join(list, ",")
}

// variableNames marks optional variables.
func (t *templateJSON) variableNames() string {
	var list []string
	for _, v := range t.Variables {
		name := v.Name
		if !v.Required {
			name = "[" + name + "]"
		}
		list = append(list, name)
	}
	return strings.Join(list, ",")
}

func templatePath(name string, more ...string) string {
	return "/v1/templates/" + url.PathEscape(name) + strings.Join(append([]string{""}, more...), "/")
}

func (p *program) templateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Keep what messages say under names, with variables and languages",
		Long: `Keep what messages say under names. Publishes and campaigns take a template's content as it is when they are made; changing
it changes nothing that is on its way.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.templateList(), p.templateShow(), p.templateRevisions(), p.templateSet(), p.templatePreview(), p.templateRemove())
	return cmd
}

func (p *program) templateList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the app's templates", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/templates", nil, 0, []string{"TEMPLATE", "REVISION", "LANGUAGES", "VARIABLES", "TITLE"}, func(t *templateJSON) []string {
					return []string{t.Name, strconv.FormatInt(t.Revision, 10), t.languages(), clean(t.variableNames()), clean(t.Title)}
				})
			})
		},
	}
}

func (p *program) templateShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show what a template says, as template set --file takes it", Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var t templateJSON
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: templatePath(args[0])}, &t); err != nil {
					return err
				}
				if p.json {
					return p.line(t.raw)
				}
				var says any
				if err := json.Unmarshal(t.Content, &says); err != nil {
					return fmt.Errorf("read answer: %w", err)
				}
				enc := json.NewEncoder(p.stdout)
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				return enc.Encode(says)
			})
		},
	}
}

// revisionJSON holds the fields of a template's revision that commands show.
type revisionJSON struct {
	Revision int64 `json:"revision"`
	Content  struct {
		Title string `json:"title"`
		Body  string `json:"body"`
	} `json:"content"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (p *program) templateRevisions() *cobra.Command {
	return &cobra.Command{
		Use: "revisions NAME", Short: "List what a template said at its latest 20 revisions", Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, templatePath(args[0], "revisions"), nil, 0, []string{"REVISION", "AT", "TITLE", "TEXT"}, func(r *revisionJSON) []string {
					return []string{strconv.FormatInt(r.Revision, 10), moment(r.UpdatedAt), clean(r.Content.Title), clean(r.Content.Body)}
				})
			})
		},
	}
}

func (p *program) templateSet() *cobra.Command {
	var file, title, body, link, icon, image, language string
	var revision int64
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a template, in place of what it said before",
		Long: `Store a template, in place of what it said before. --file has its content as JSON: title, body, url, locales and what only some
channels understand, as template show prints it; flags change what it says. {{name|friend}} in texts is a variable, and
what to say where nobody gave it.`,
		Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			says := map[string]any{}
			if file != "" {
				if err := readJSONFile(file, p.stdin, &says); err != nil {
					return fmt.Errorf("template %s: %w", args[0], err)
				}
			}
			for name, text := range map[string]string{"title": title, "body": body, "url": link, "icon": icon, "image": image, "language": language} {
				if text != "" {
					says[name] = text
				}
			}
			if len(says) == 0 {
				return withHint(usagef("template %s says nothing", args[0]), `give its content: godwit template set %s --title "Hi {{name|friend}}", or --file`, args[0])
			}
			call := godwit.Call{Method: http.MethodPut, Path: templatePath(args[0]), Body: map[string]any{"content": says}}
			if revision > 0 {
				call.IfMatch = strconv.Quote(strconv.FormatInt(revision, 10))
			}
			return p.withClient(func(c *godwit.Client) error {
				var t templateJSON
				if err := c.Call(cmd.Context(), call, &t); err != nil {
					return err
				}
				if p.json {
					return p.line(t.raw)
				}
				needs := ""
				if v := t.variableNames(); v != "" {
					needs = "; it says " + v
				}
				_, err := fmt.Fprintf(p.stdout, "Template %s is at revision %d%s.\n", t.Name, t.Revision, clean(needs))
				return err
			})
		},
	}
	s := cmd.Flags()
	s.StringVar(&file, "file", "", "the content as JSON; - reads standard input")
	s.StringVar(&title, "title", "", "title of the message")
	s.StringVar(&body, "body", "", "text of the message")
	s.StringVar(&link, "link", "", "URL that a click opens")
	s.StringVar(&icon, "icon", "", "URL of a small picture")
	s.StringVar(&image, "image", "", "URL of a large picture")
	s.StringVar(&language, "language", "", "of these texts, like en; other languages stand in the file")
	s.Int64Var(&revision, "revision", 0, "only if this is its revision now")
	return cmd
}

func (p *program) templatePreview() *cobra.Command {
	var locale, channel string
	var given []string
	cmd := &cobra.Command{
		Use: "preview NAME", Short: "Show what a template says with these variables", Args: names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			vars, err := variables(given)
			if err != nil {
				return err
			}
			if vars != nil {
				body["variables"] = vars
			}
			for name, text := range map[string]string{"locale": locale, "channel": channel} {
				if text != "" {
					body[name] = text
				}
			}
			return p.withClient(func(c *godwit.Client) error {
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPost, Path: templatePath(args[0], "preview"), Body: body}, &raw); err != nil {
					return err
				}
				if p.json {
					return p.line(raw)
				}
				return p.showFilled(raw)
			})
		},
	}
	s := cmd.Flags()
	s.StringArrayVar(&given, "var", nil, "variable, NAME=VALUE (repeatable)")
	s.StringVar(&locale, "locale", "", "in this language")
	s.StringVar(&channel, "channel", "", "as this channel sends it")
	return cmd
}

func (p *program) showFilled(raw json.RawMessage) error {
	var v struct {
		Content struct{ Title, Body, URL string }
		Missing []string
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	for _, text := range []string{p.paint(bold, clean(v.Content.Title)), clean(v.Content.Body), clean(v.Content.URL)} {
		if text != "" {
			fmt.Fprintln(p.stdout, text)
		}
	}
	if len(v.Missing) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(p.stdout, "\nA publish needs these too: %s\n", clean(strings.Join(v.Missing, ", ")))
	return err
}

func (p *program) templateRemove() *cobra.Command {
	cmd := &cobra.Command{Use: "remove NAME", Short: "Delete a template; what was made of it stays", Args: names("name")}
	return p.deletes(cmd, "template", func(name string) string { return templatePath(name) }, "Template %s is deleted.")
}

// variables reads NAME=VALUE.
func variables(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(given))
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usagef("--var %s: write it like plan=pro", one)
		}
		all[name] = value
	}
	return all, nil
}
