package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/config"
)

func (p *program) objectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "object",
		Short: "Say that an object has a new version, see who knows it, follow it",
		Long: `Objects are signals: "object X is at version v". Every client that is registered for an object eventually learns its
latest version, whatever fails in between; versions in between may be left out. An object is named by its group and
its name, as GROUP/OBJECT or as two arguments.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.objectPutCommand(), p.objectGetCommand(), p.objectListCommand(), p.objectWatchCommand(), p.objectStatusCommand(), p.objectBatchCommand())
	return cmd
}

// objectName is a group and a name within it.
type objectName struct{ group, object string }

func (n objectName) String() string { return n.group + "/" + n.object }

// objectNames reads "GROUP/OBJECT..." or "GROUP OBJECT...".
func objectNames(cmd *cobra.Command, args []string) (names []objectName, err error) {
	if len(args) == 0 {
		return nil, usagef("%s is missing its GROUP/OBJECT", cmd.CommandPath())
	}
	if !strings.Contains(args[0], "/") {
		if len(args) == 1 {
			return nil, usagef("%s is missing its object: GROUP/OBJECT", cmd.CommandPath())
		}
		for _, a := range args[1:] {
			names = append(names, objectName{args[0], a})
		}
	} else {
		for _, a := range args {
			group, object, ok := strings.Cut(a, "/")
			if !ok {
				return nil, usagef("%q is not GROUP/OBJECT", a)
			}
			names = append(names, objectName{group, object})
		}
	}
	for _, n := range names {
		if err := errors.Join(notification.CheckName("group", n.group), notification.CheckName("object", n.object)); err != nil {
			return nil, usagef("%w", err)
		}
	}
	return names, nil
}

// oneObject is the argument rule of commands about one object.
func oneObject(cmd *cobra.Command, args []string) (objectName, error) {
	names, err := objectNames(cmd, args)
	if err != nil {
		return objectName{}, err
	}
	if len(names) > 1 {
		return objectName{}, usagef("%s takes one object", cmd.CommandPath())
	}
	return names[0], nil
}

// completeObjects offers the objects of a group that is completely typed.
func (p *program) completeObjects(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	group, prefix, ok := strings.Cut(begun, "/")
	if !ok || len(args) > 0 && !strings.Contains(args[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := p.client(godwit.WithAttempts(1))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer c.Close()
	var found []cobra.Completion
	for o, err := range c.ListObjects(cmd.Context(), group, prefix) {
		if err != nil || len(found) == maxCompletions {
			break
		}
		found = append(found, group+"/"+o.Object)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

const maxCompletions = 100 // more help nobody

type objectPutFlags struct {
	version, payload, source, rate string
	unknown                        bool
	repeat                         int
}

func (p *program) objectPutCommand() *cobra.Command {
	var f objectPutFlags
	cmd := &cobra.Command{
		Use:   "put GROUP/OBJECT",
		Short: "Say that an object has a new version, or that nobody can tell its version",
		Long: `Say that an object has a new version. Without --version the server takes the next one; a version that is not above
the current one changes nothing. --unknown says that nobody can tell the latest version: clients fetch the object from
where it lives, and the current version stays as a floor. With --repeat each put counts one up.`,
		ValidArgsFunction: p.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := oneObject(cmd, args)
			if err != nil {
				return err
			}
			return p.objectPut(cmd.Context(), n, &f)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.version, "version", "", "the new version, 1 to 2^63-1 (default: the next one)")
	s.StringVar(&f.payload, "payload", "", "up to 4 KB that go along: JSON or text, @FILE reads it from a file")
	s.BoolVar(&f.unknown, "unknown", false, "nobody can tell the version; --version raises the floor")
	s.StringVar(&f.source, "source", "", "the client that caused it, RECIPIENT or RECIPIENT/DEVICE: it is not told")
	s.IntVar(&f.repeat, "repeat", 1, "put so often, each one version up")
	s.StringVar(&f.rate, "rate", "", "puts a second, like 1/s (default: as fast as they are answered)")
	return cmd
}

// put reads the flags.
func (f *objectPutFlags) put() (o godwit.ObjectPut, every time.Duration, err error) {
	o = godwit.ObjectPut{Payload: []byte(f.payload), Source: f.source}
	if f.version != "" {
		if o.Version, err = godwit.ParseVersion(f.version); err != nil {
			return o, 0, usagef("--version: %w", err)
		}
	}
	if file, ok := strings.CutPrefix(f.payload, "@"); ok {
		if o.Payload, err = os.ReadFile(file); err != nil {
			return o, 0, fmt.Errorf("read payload: %w", err)
		}
	}
	if f.rate != "" {
		r, err := config.ParseRate(f.rate)
		if err != nil || r.PerSecond() == 0 {
			return o, 0, usagef("--rate %s is not a rate like 1/s", f.rate)
		}
		every = time.Duration(float64(time.Second) / r.PerSecond())
	}
	switch {
	case f.repeat < 1:
		return o, 0, usagef("--repeat must be at least 1")
	case f.unknown && len(o.Payload) > 0:
		return o, 0, usagef("--unknown and --payload contradict each other")
	}
	return o, every, nil
}

func (p *program) objectPut(ctx context.Context, n objectName, f *objectPutFlags) error {
	o, every, err := f.put()
	if err != nil {
		return err
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var due <-chan time.Time
	if every > 0 && f.repeat > 1 {
		t := time.NewTicker(every)
		defer t.Stop()
		due = t.C
	}
	for i := range f.repeat {
		if i > 0 && due != nil {
			select {
			case <-due:
			case <-ctx.Done():
				return nil // interrupted; what was put stays
			}
		}
		var r godwit.PutResult
		if f.unknown {
			r, err = c.UnknownObject(ctx, n.group, n.object, o.Version)
		} else {
			r, err = c.PutObject(ctx, n.group, n.object, o)
		}
		if err == nil {
			err = p.printPut(n, r, f.unknown)
		}
		if err != nil {
			return err
		}
		if o.Version > 0 {
			o.Version++
		}
	}
	return nil
}

func (p *program) printPut(n objectName, r godwit.PutResult, unknown bool) error {
	if p.json {
		return p.line(struct {
			Group   string         `json:"group"`
			Object  string         `json:"object"`
			Version godwit.Version `json:"version"`
			Changed bool           `json:"changed"`
			Unknown bool           `json:"unknown,omitempty"`
		}{n.group, n.object, r.Version, r.Changed, unknown})
	}
	what, note := "version "+r.Version.String(), ""
	if unknown {
		what = "unknown, floor " + r.Version.String()
	}
	if !r.Changed {
		note = " (as before: nothing was sent)"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s%s\n", p.paint(bold, n.String()), what, note)
	return err
}

func (p *program) objectGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "get GROUP/OBJECT",
		Short:             "Print an object's version and payload",
		ValidArgsFunction: p.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := oneObject(cmd, args)
			if err != nil {
				return err
			}
			c, err := p.client()
			if err != nil {
				return err
			}
			defer c.Close()
			o, err := c.GetObject(cmd.Context(), n.group, n.object)
			if err != nil {
				return err
			}
			if p.json {
				return p.line(objectJSON(&o))
			}
			_, err = fmt.Fprintf(p.stdout, "%s %s%s\n", p.paint(bold, n.String()), versionText(o.Version, o.Unknown), payloadText(o.Payload))
			return err
		},
	}
}

func versionText(v godwit.Version, unknown bool) string {
	switch {
	case !unknown:
		return "version " + v.String()
	case v == 0:
		return "unknown"
	}
	return "unknown, floor " + v.String()
}

func payloadText(payload []byte) string {
	switch {
	case len(payload) == 0:
		return ""
	case !utf8.Valid(payload):
		return fmt.Sprintf(" (%d bytes)", len(payload))
	}
	return " " + clean(string(payload))
}

// objectJSON returns an object as the API shows it.
func objectJSON(o *godwit.Object) map[string]any {
	v := map[string]any{"group": o.Group, "object": o.Object, "version": o.Version, "unknown": o.Unknown}
	putPayload(v, o.Payload, o.ContentType)
	if o.Source != "" {
		v["source"] = o.Source
	}
	if !o.UpdatedAt.IsZero() {
		v["updated_at"] = o.UpdatedAt
	}
	return v
}

func putPayload(v map[string]any, payload []byte, contentType string) {
	if len(payload) == 0 {
		return
	}
	switch {
	case notification.IsJSON(contentType):
		v["payload"] = json.RawMessage(payload)
	case utf8.Valid(payload):
		v["payload"] = string(payload)
	default:
		v["payload_base64"] = payload
	}
	if contentType != "" && contentType != "application/json" {
		v["content_type"] = contentType
	}
}

func (p *program) objectListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list GROUP [PREFIX]",
		Short: "List the objects of a group",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				group, prefix, _ := strings.Cut(args[0], "/")
				args = []string{group, prefix}
			}
			if len(args) < 2 {
				return exactly("group")(cmd, args)
			}
			if len(args) > 2 {
				return usagef("%s takes no argument %q", cmd.CommandPath(), args[2])
			}
			if err := notification.CheckName("group", args[0]); err != nil {
				return usagef("%w", err)
			}
			return p.objectList(cmd.Context(), args[0], args[1])
		},
	}
}

func (p *program) objectList(ctx context.Context, group, prefix string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var rows [][]string
	for o, err := range c.ListObjects(ctx, group, prefix) {
		if err != nil {
			return err
		}
		if p.json {
			if err := p.line(objectJSON(&o)); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{
			clean(o.Object), strings.TrimPrefix(versionText(o.Version, o.Unknown), "version "), clock(o.UpdatedAt), clean(o.Source), payloadText(o.Payload),
		})
	}
	if p.json {
		return nil
	}
	return p.table([]string{"OBJECT", "VERSION", "UPDATED", "SOURCE", "PAYLOAD"}, rows)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

type objectStatusFlags struct{ has, lacks string }

func (p *program) objectStatusCommand() *cobra.Command {
	var f objectStatusFlags
	cmd := &cobra.Command{
		Use:               "status GROUP/OBJECT",
		Short:             "Show who is registered for an object and which version each has",
		ValidArgsFunction: p.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := oneObject(cmd, args)
			if err != nil {
				return err
			}
			if f.has != "" && f.lacks != "" {
				return usagef("--has and --lacks contradict each other")
			}
			return p.objectStatus(cmd.Context(), n, &f)
		},
	}
	cmd.Flags().StringVar(&f.has, "has", "", "only those that have acknowledged this version or a later one")
	cmd.Flags().StringVar(&f.lacks, "lacks", "", "only those that have not")
	return cmd
}

// keep returns a filter for the wanted registrations.
func (f *objectStatusFlags) keep() (func(*godwit.Registration) bool, error) {
	text, has := f.has, true
	if text == "" {
		text, has = f.lacks, false
	}
	if text == "" {
		return func(*godwit.Registration) bool { return true }, nil
	}
	v, err := godwit.ParseVersion(text)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return func(r *godwit.Registration) bool { return (r.AckedVersion >= v) == has }, nil
}

func (p *program) objectStatus(ctx context.Context, n objectName, f *objectStatusFlags) error {
	keep, err := f.keep()
	if err != nil {
		return err
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Registrations(ctx, n.group, n.object)
	if err != nil {
		return err
	}
	var rows [][]string
	for i := range list {
		r := &list[i]
		if !keep(r) {
			continue
		}
		if p.json {
			if err := p.line(r); err != nil {
				return err
			}
			continue
		}
		online := "no"
		if r.Online {
			online = "yes"
		}
		rows = append(rows, []string{clean(r.Recipient), orDash(r.Device), online, clock(r.LastSeen), orNone(r.SentVersion), orNone(r.AckedVersion)})
	}
	if p.json {
		return nil
	}
	if err := p.table([]string{"RECIPIENT", "DEVICE", "ONLINE", "LAST SEEN", "SENT", "ACKNOWLEDGED"}, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%d of %d registrations for %s\n", len(rows), len(list), n)
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return clean(s)
}

func orNone(v godwit.Version) string {
	if v == 0 {
		return "-"
	}
	return v.String()
}
