package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// control is a client for the management of apps and their settings, with the app that the command names.
type control struct {
	*godwit.Client
	query url.Values // names the app
}

// call makes a call about the app.
func (c *control) call(cmd *cobra.Command, method, path string, body, out any) error {
	call := godwit.Call{Method: method, Path: path, Query: c.query, Body: body}
	if method != http.MethodGet {
		call.IfMatch = atRevision(cmd)
	}
	return c.Call(cmd.Context(), call, out)
}

// revisionFlag adds --revision to a command that changes or deletes what; shown is the command that prints revisions.
func revisionFlag(cmd *cobra.Command, what, shown string) {
	cmd.Flags().String("revision", "", "change this revision of the "+what+" and no other, as godwit "+shown+" prints it")
}

// atRevision returns the condition of a command with --revision; "": any revision will do.
func atRevision(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("revision"); f != nil && f.Changed {
		return strconv.Quote(f.Value.String())
	}
	return ""
}

// raw makes a call and stores the answer's text, which may be empty.
func (c *control) raw(cmd *cobra.Command, method, path string, into *json.RawMessage) error {
	answer, err := c.Stream(cmd.Context(), godwit.Call{Method: method, Path: path, Query: c.query, IfMatch: atRevision(cmd)})
	if err != nil {
		return err
	}
	defer answer.Close()
	*into, err = io.ReadAll(io.LimitReader(answer, maxInput))
	return err
}

// withControl runs do with a client that manages the settings of an app; "": the only one. The client presents the operator key, or if none
// is known the app's API key. With --local it works on a data folder.
func (p *program) withControl(cmd *cobra.Command, app string, do func(c *control) error) error {
	return p.managing(cmd, app, false, do)
}

// withServer runs do with a client that manages the server's apps. Only the operator key may.
func (p *program) withServer(cmd *cobra.Command, create bool, do func(c *control) error) error {
	if p.local {
		return p.inFolder(cmd, create, &control{}, do)
	}
	s, err := p.server()
	if err != nil {
		return p.orLocal(cmd, err)
	}
	if s.operator == "" {
		if err := p.reachable(cmd, &s); err != nil {
			return err
		}
		return withHint(fmt.Errorf("godwit %s needs the operator key of %s", commandName(cmd), s.url),
			"it is in operator.key of the server's data folder: name that folder with --data, or the file with --operator-key-file, or write both down with godwit login %s", s.url)
	}
	c, err := p.clientOf(&s, s.operator)
	if err != nil {
		return err
	}
	defer c.Close()
	return p.orLocal(cmd, do(&control{Client: c}))
}

func (p *program) managing(cmd *cobra.Command, app string, create bool, do func(c *control) error) error {
	c := &control{query: url.Values{}}
	if app != "" {
		c.query.Set("app", app)
	}
	if p.local {
		return p.inFolder(cmd, create, c, do)
	}
	s, err := p.server()
	if err != nil {
		return p.orLocal(cmd, err)
	}
	key := s.operator
	switch {
	case key == "" || p.keyFile != "":
		key = s.key
	case app == "" && s.app != "":
		c.query.Set("app", s.app)
	}
	if c.Client, err = p.clientOf(&s, key); err != nil {
		return err
	}
	defer c.Close()
	return p.orLocal(cmd, do(c))
}

// inFolder runs do with a client of the data folder.
func (p *program) inFolder(cmd *cobra.Command, create bool, c *control, do func(c *control) error) (err error) {
	if p.url != "" || p.context != "" {
		return usagef("--local is about a folder, and --url and --context are about a server; give one")
	}
	settings, err := p.settings(cmd)
	if err != nil {
		return err
	}
	f, err := p.openFolder(cmd.Context(), settings, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	c.Client, err = godwit.New("http://folder", godwit.WithHTTPClient(&http.Client{Transport: f}), godwit.WithAPIKey(holderKey), godwit.WithAttempts(1))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := do(c); err != nil {
		return &folderError{err}
	}
	return nil
}

// folderError is the error of an answer that no server gave.
type folderError struct{ err error }

var serverAnswered = regexp.MustCompile(`server answered [0-9]{3}: `)

func (e *folderError) Error() string { return serverAnswered.ReplaceAllString(e.err.Error(), "") }
func (e *folderError) Unwrap() error { return e.err }

// orLocal adds to the error of a server that does not answer that the command can also write to a folder.
func (p *program) orLocal(cmd *cobra.Command, err error) error {
	if err == nil || !away(err) || cmd.Flags().Lookup("local") == nil || p.called != nil && p.called.named != "" {
		return err
	}
	return withHint(fmt.Errorf("no server answers at %s", p.called.url), bothWays)
}

// reachable returns an error if no server answers.
func (p *program) reachable(cmd *cobra.Command, s *server) error {
	c, err := p.clientOf(s, "", godwit.WithAttempts(1), godwit.WithOnRetry(nil))
	if err != nil {
		return err
	}
	defer c.Close()
	if err = c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: "/healthz"}, nil); away(err) {
		return p.orLocal(cmd, err)
	}
	return nil
}

// commandName is the command without the program's name.
func commandName(cmd *cobra.Command) string {
	name := cmd.CommandPath()
	if len(name) > len("godwit ") {
		return name[len("godwit "):]
	}
	return name
}
