package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

func (p *program) loginCommand() *cobra.Command {
	var name, app string
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Write a server and a key of it down, for the commands to come",
		Long: `Write a server and a key of it down as a context, which becomes the current one. The key is read from standard input, and the
server is asked whether it knows it. It is the server's operator key, which is in operator.key of its data folder, or an API key of an app; a
context has room for one of each.`,
		Args: exactly("url"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.url != "" || p.context != "" {
				return usagef("godwit login names the server as its argument")
			}
			if err := checkURL(args[0]); err != nil {
				return err
			}
			s := server{url: strings.TrimSuffix(args[0], "/"), named: "the argument"}
			if p.ca != "" {
				ca, err := filepath.Abs(p.ca)
				if err != nil {
					return err
				}
				s.ca = ca
			}
			key, err := p.askKey(s.url)
			if err != nil {
				return err
			}
			what, err := p.tryKey(cmd, &s, key)
			if err != nil {
				return err
			}
			if name == "" {
				name = contextName(s.url)
			}
			list, err := p.readContexts()
			if err != nil {
				return err
			}
			if was := list.all[name]; was.url == s.url { // the other kind of key stays
				s.key, s.operator, s.app = was.key, was.operator, was.app
			}
			if access.IsOperatorKey(key) {
				s.operator = key
			} else {
				s.key = key
			}
			if app != "" {
				s.app = app
			}
			list.all[name], list.current = s, name
			if err := list.write(); err != nil {
				return err
			}
			return p.say("context", fmt.Sprintf("context %s is %s, with %s; commands go there now", name, s.url, what))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the context (default: the server's host)")
	cmd.Flags().StringVar(&app, "app", "", "app that commands mean, where the server has several and no key says it")
	return cmd
}

// contextName returns a name for a server's context.
func contextName(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "default"
	}
	return u.Hostname()
}

// maxKey limits the length of a key that is typed or piped, in bytes.
const maxKey = 4096

// askKey reads a key from standard input; on a terminal it is not shown.
func (p *program) askKey(server string) (string, error) {
	var key string
	if f, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(p.stderr, "Operator key or API key of %s: ", server)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(p.stderr)
		if err != nil {
			return "", fmt.Errorf("read key: %w", err)
		}
		key = string(b)
	} else {
		line, err := bufio.NewReader(io.LimitReader(p.stdin, maxKey)).ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read key: %w", err)
		}
		key = textfile.Plain(line)
	}
	if key = strings.TrimSpace(key); key == "" {
		return "", withHint(usagef("there is no key on standard input"), "godwit login %s <godwit-data/operator.key", server)
	}
	return key, nil
}

// tryKey asks the server whether it knows a key, and returns what the key is.
func (p *program) tryKey(cmd *cobra.Command, s *server, key string) (what string, err error) {
	path, what := "/v1/recipients", "an API key"
	if access.IsOperatorKey(key) {
		path, what = "/v1/apps", "the operator key"
	}
	c, err := p.clientOf(s, key)
	if err != nil {
		return "", err
	}
	defer c.Close()
	err = c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: path}, nil)
	var answer *godwit.Error
	switch {
	case err == nil, errors.As(err, &answer) && answer.Status == http.StatusForbidden: // a key without the role to read
		return what, nil
	case answer != nil && answer.Status == http.StatusUnauthorized:
		return "", withHint(fmt.Errorf("%s does not know this key", s.url), "the operator key is in operator.key of the server's data folder; godwit operator rotate makes another, godwit key create makes API keys")
	}
	return "", fmt.Errorf("try the key: %w", err)
}
