package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/config"
)

// contextsFile is where a user's servers are written down:
//
//	current = "prod"
//	[contexts.prod]
//	url     = "https://godwit.example.org"
//	api_key = "gw_..."
//	ca      = "/home/anna/ca.pem"
//	operator_key = "gwo_..."
func (p *program) contextsFile() string {
	dir := p.env("XDG_CONFIG_HOME")
	if dir == "" {
		if p.env("HOME") == "" {
			return ""
		}
		dir = filepath.Join(p.env("HOME"), ".config")
	}
	return filepath.Join(dir, "godwit", "contexts.toml")
}

// contexts holds the servers in a user's contexts file.
type contexts struct {
	file    string
	current string
	all     map[string]server
}

// readContexts reads the contexts file; a missing file means no contexts.
func (p *program) readContexts() (contexts, error) {
	list := contexts{file: p.contextsFile(), all: map[string]server{}}
	if list.file == "" {
		return list, nil
	}
	b, err := os.ReadFile(list.file)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return list, fmt.Errorf("read contexts: %w", err)
	}
	values, err := toml.Parser().Unmarshal(b)
	if err != nil {
		return list, withHint(fmt.Errorf("read contexts from %s: %w", list.file, config.AtLine(err)), "mend the file, or remove it and write it anew with godwit context add")
	}
	list.current, _ = values["current"].(string)
	all, _ := values["contexts"].(map[string]any)
	for name, v := range all {
		one, _ := v.(map[string]any)
		var s server
		for key, into := range s.fields() {
			if v, ok := one[key]; ok {
				*into = fmt.Sprint(v)
			}
		}
		list.all[name] = s
	}
	return list, nil
}

// fields returns the fields of a server in the contexts file, by key.
func (s *server) fields() map[string]*string {
	return map[string]*string{"url": &s.url, "api_key": &s.key, "app": &s.app, "ca": &s.ca, "operator_key": &s.operator}
}

// write replaces the file in one step. It contains keys: only its owner may read it.
func (c *contexts) write() error {
	if c.file == "" {
		return withHint(errors.New("there is no place for contexts.toml"), "set HOME or XDG_CONFIG_HOME")
	}
	all := map[string]any{}
	for name, s := range c.all {
		one := map[string]any{}
		for key, v := range s.fields() {
			if *v != "" {
				one[key] = *v
			}
		}
		all[name] = one
	}
	values := map[string]any{"contexts": all}
	if c.current != "" {
		values["current"] = c.current
	}
	b, err := toml.Parser().Marshal(values)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.file), 0o700)
	}
	if err == nil {
		_ = os.Remove(c.file + ".tmp") // a file that is there would keep its mode
		err = os.WriteFile(c.file+".tmp", b, 0o600)
	}
	if err == nil {
		err = os.Rename(c.file+".tmp", c.file)
	}
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// named returns the context of a name; an empty name selects the current context, if there is one.
func (c *contexts) named(name string) (server, error) {
	if name == "" {
		if name = c.current; name == "" {
			return server{}, nil
		}
	}
	s, ok := c.all[name]
	if ok {
		return s, nil
	}
	err := fmt.Errorf("there is no context %s", name)
	if len(c.all) == 0 {
		return s, withHint(err, "godwit context add %s --url https://godwit.example.org writes one down", name)
	}
	return s, withHint(err, "there are %s; godwit context add %s --url URL writes another down", strings.Join(slices.Sorted(maps.Keys(c.all)), ", "), name)
}

func (p *program) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Write down servers and keys, and choose which one is meant",
		Long: `Write down servers by name, in contexts.toml of your configuration folder, which only you can read. Commands go to the
one chosen with godwit context use, or named with --context or GODWIT_CONTEXT, unless GODWIT_URL is set.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.contextAddCommand(), p.contextUseCommand(), p.contextListCommand(), p.contextDeleteCommand())
	return cmd
}

func (p *program) contextAddCommand() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "add NAME --url URL",
		Short: "Write a server down, with the key of --api-key-file or GODWIT_API_KEY",
		Long: `Write a server down, in the place of a former one of that name. The key is read from --api-key-file or GODWIT_API_KEY and
kept in contexts.toml. The first server becomes the current one. The file is written anew: comments in it are lost.`,
		Args: names("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			if p.url == "" {
				return withHint(usagef("--url is missing: where is the server?"), "godwit context add %s --url https://godwit.example.org", args[0])
			}
			if err := checkURL(p.url); err != nil {
				return err
			}
			s, err := p.named(app)
			if err != nil {
				return err
			}
			list, err := p.readContexts()
			if err != nil {
				return err
			}
			list.all[args[0]] = s
			if list.current == "" {
				list.current = args[0]
			}
			if err := list.write(); err != nil {
				return err
			}
			note := ""
			if s.key == "" {
				note = ", without a key: GODWIT_API_KEY is used with it"
			}
			return p.say("added", fmt.Sprintf("context %s is %s%s", args[0], s.url, note))
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "app, where the server has several and no key says it")
	return cmd
}

// named returns the server that the flags name, with its key and the file of its authority.
func (p *program) named(app string) (s server, err error) {
	s = server{url: p.url, app: app}
	if s.key, err = p.apiKey(); err != nil {
		return s, err
	}
	if p.ca != "" {
		if _, err := authorities(p.ca); err != nil {
			return s, err
		}
		s.ca, err = filepath.Abs(p.ca)
	}
	return s, err
}

func (p *program) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the server that commands go to",
		Args:  names("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := p.readContexts()
			if err != nil {
				return err
			}
			s, err := list.named(args[0])
			if err != nil {
				return err
			}
			list.current = args[0]
			if err := list.write(); err != nil {
				return err
			}
			if other := p.env("GODWIT_URL"); other != "" && other != s.url {
				fmt.Fprintf(p.stderr, "note: GODWIT_URL is set, so commands go to %s all the same; unset it\n", other)
			}
			return p.say("current", fmt.Sprintf("commands go to %s now", s.url))
		},
	}
}

func (p *program) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the servers that are written down, without their keys",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			list, err := p.readContexts()
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(list.all)) {
				s := list.all[name]
				if p.json {
					v := map[string]any{"name": name, "url": s.url, "app": s.app, "has_key": s.key != "", "has_operator_key": s.operator != "", "current": name == list.current}
					if err := p.line(v); err != nil {
						return err
					}
					continue
				}
				mark := ""
				if name == list.current {
					mark = "*"
				}
				rows = append(rows, []string{mark, clean(name), clean(s.url), clean(s.app), yesNo(s.key != ""), yesNo(s.operator != "")})
			}
			if p.json {
				return nil
			}
			return p.table([]string{"", "CONTEXT", "URL", "APP", "KEY", "OPERATOR"}, rows)
		},
	}
}

func (p *program) contextDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Forget a server and its key",
		Args:  names("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := p.readContexts()
			if err != nil {
				return err
			}
			if _, err := list.named(args[0]); err != nil {
				return err
			}
			delete(list.all, args[0])
			if list.current == args[0] {
				list.current = ""
			}
			if err := list.write(); err != nil {
				return err
			}
			return p.say("deleted", "context "+args[0]+" is forgotten")
		},
	}
}
