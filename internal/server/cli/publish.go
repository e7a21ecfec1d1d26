package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

// maxInput limits the input from files and standard input, in bytes; the server's limit is a little lower.
const maxInput = godwit.MaxPublish

type publishFlags struct {
	id, title, body, category, data, ttl, sendAt, collapse, priority, ack, replyBy, wait, digestKey string
	template, locale, escalate, file                                                                string
	stdin, inbox                                                                                    bool
	keep                                                                                            string
	actions                                                                                         []string
	variables                                                                                       []string
}

func (p *program) publishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:        "publish RECIPIENT [-]",
		SuggestFor: []string{"send", "notify", "push"},
		Short:      "Publish a notification",
		Long: `Publish a notification. With "-" after the recipient, or --body -, the body is read from standard input. --data takes
JSON or text, @FILE reads it from a file; what begins like JSON must be JSON. --escalate names the channels that follow one another until
somebody acknowledges, each with the time after which it begins. With --file or --stdin the whole notification is read as JSON, as the API
takes it, and a recipient in the command line replaces its "to". With --wait it returns when the notification was acknowledged; it fails if
that did not happen in time or the notification ended otherwise.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] == "-" {
				if f.body != "" {
					return usagef("the body comes either from --body or from standard input")
				}
				f.body = "-"
				args = args[:1]
			}
			if f.whole() && len(args) == 0 {
				return nil
			}
			return exactly("recipient")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var wait time.Duration
			var err error
			if f.wait != "" {
				if wait, err = notification.ParseDuration(f.wait); err != nil || wait == 0 {
					return usagef("--wait %s is not a duration like 10s", f.wait)
				}
			}
			if f.whole() {
				return p.publishWhole(cmd, &f, args, wait)
			}
			pub, err := p.publication(args[0], &f)
			if err != nil {
				return err
			}
			return p.publish(cmd.Context(), pub, wait)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.title, "title", "", "title")
	s.StringVar(&f.body, "body", "", "text; - reads it from standard input")
	s.StringVar(&f.category, "category", "", "category, for the client to act on")
	s.StringVar(&f.data, "data", "", "data for the client: JSON or text, or @FILE")
	s.StringVar(&f.id, "id", "", "id; publishing the same id again sends nothing twice (default: a new one)")
	s.StringVar(&f.ttl, "ttl", "", "how long to keep trying, like 30s, 24h or 7d (default 24h)")
	s.StringVar(&f.sendAt, "send-at", "", "deliver at this time (RFC 3339) or after this duration")
	s.StringVar(&f.collapse, "collapse-key", "", "replaces an unsettled notification of the same key")
	s.StringVar(&f.digestKey, "digest-key", "", "with which others it gathers, if its category gathers")
	s.StringVar(&f.priority, "priority", "", "high, normal or low")
	s.StringVar(&f.ack, "ack", "", "who must acknowledge: any, all or none")
	s.StringVar(&f.replyBy, "reply-by", "", "ask the recipient for an answer within this time, like 72h; --wait prints it")
	s.StringVar(&f.template, "template", "", "template whose content it gets, in the place of title, body and category")
	s.StringArrayVar(&f.variables, "var", nil, "variable of the template, NAME=VALUE (repeatable)")
	s.StringVar(&f.locale, "locale", "", "language in which sessions get the template, like de-CH")
	s.StringVar(&f.escalate, "escalate", "", "channels in order, each with the time after which it begins, like live,fcm:5s,telegram:30s")
	s.BoolVar(&f.inbox, "inbox", false, "recipients' inboxes keep it after its delivery")
	s.StringVar(&f.keep, "keep", "", "how long the inbox keeps it, like 7d; at most 365d (default 30d)")
	s.StringArrayVar(&f.actions, "action", nil, "choice that the kept notification offers, ID=TITLE or ID=TITLE=URL (repeatable)")
	s.StringVar(&f.file, "file", "", "file with the whole notification as JSON")
	s.BoolVar(&f.stdin, "stdin", false, "read the whole notification as JSON from standard input")
	s.StringVar(&f.wait, "wait", "", "return when it was acknowledged, or fail after this long")
	return cmd
}

func (p *program) publication(to string, f *publishFlags) (pub godwit.Publication, err error) {
	pub = godwit.Publication{
		To: to, ID: f.id, Title: f.title, Body: f.body, Category: f.category, CollapseKey: f.collapse, DigestKey: f.digestKey, Priority: f.priority, Ack: f.ack,
		Template: f.template, Locale: f.locale,
	}
	if pub.Variables, err = variables(f.variables); err != nil {
		return pub, err
	}
	if f.body == "-" {
		b, err := io.ReadAll(io.LimitReader(p.stdin, maxInput+1))
		if err != nil {
			return pub, fmt.Errorf("read body: %w", err)
		}
		if len(b) > maxInput {
			return pub, fmt.Errorf("the body is larger than %d bytes", maxInput)
		}
		pub.Body = strings.TrimRight(string(b), "\n")
	}
	pub.Data = []byte(f.data)
	if file, ok := strings.CutPrefix(f.data, "@"); ok {
		if pub.Data, err = os.ReadFile(file); err != nil {
			return pub, fmt.Errorf("read data: %w", err)
		}
	}
	if err := checkData(pub.Data); err != nil {
		return pub, err
	}
	if pub.Escalate, err = steps(f.escalate); err != nil {
		return pub, err
	}
	if err := f.times(&pub); err != nil {
		return pub, err
	}
	if err := f.kept(&pub); err != nil {
		return pub, err
	}
	if pub.Template == "" && pub.Title == "" && pub.Body == "" && pub.Category == "" && len(pub.Data) == 0 {
		return pub, withHint(usagef("there is nothing to publish: no title, body, category or data"), `godwit publish %s --title "New ride" --body "2.1 km away"`, to)
	}
	return pub, nil
}

// kept sets what the inbox keeps.
func (f *publishFlags) kept(pub *godwit.Publication) (err error) {
	if f.inbox {
		pub.Inbox = &f.inbox
	}
	if f.keep != "" {
		if pub.Keep, err = notification.ParseDuration(f.keep); err != nil || pub.Keep == 0 {
			return usagef("--keep %s is not a duration like 7d", f.keep)
		}
	}
	for _, text := range f.actions {
		id, rest, ok := strings.Cut(text, "=")
		title, link, _ := strings.Cut(rest, "=")
		if !ok || id == "" || title == "" {
			return usagef("--action %s is not ID=TITLE or ID=TITLE=URL", text)
		}
		pub.Actions = append(pub.Actions, godwit.Action{ID: id, Title: title, URL: link})
	}
	return nil
}

// times sets the times of a publication.
func (f *publishFlags) times(pub *godwit.Publication) (err error) {
	if f.ttl != "" {
		if pub.TTL, err = notification.ParseDuration(f.ttl); err != nil {
			return usagef("--ttl: %w", err)
		}
	}
	if f.replyBy != "" {
		if pub.ReplyBy, err = notification.ParseDuration(f.replyBy); err != nil || pub.ReplyBy == 0 {
			return usagef("--reply-by %s is not a duration like 72h", f.replyBy)
		}
	}
	if f.sendAt != "" {
		if pub.SendAt, err = parseTime(f.sendAt, time.Now()); err != nil {
			return usagef("--send-at: %w", err)
		}
	}
	return nil
}

// parseTime reads a time, or a duration from now.
func parseTime(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	d, err := notification.ParseDuration(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time like 2026-01-02T15:04:05Z nor a duration like 10m", s)
	}
	return now.Add(d), nil
}

func (p *program) publish(ctx context.Context, pub godwit.Publication, wait time.Duration) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Publish(ctx, pub)
	if err != nil {
		return err
	}
	if wait == 0 {
		return p.printReceipt(r)
	}
	return p.await(ctx, c, r, wait)
}

// await returns when a notification was acknowledged; otherwise its error names the status.
func (p *program) await(ctx context.Context, c *godwit.Client, r godwit.Receipt, wait time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s, err := c.Wait(waiting, r.ID, r.To)
	switch {
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		return withHint(fmt.Errorf("%s was not acknowledged in %s", r.ID, wait), "it stays stored until %s; see godwit events, or publish with the same --id to wait again", r.ExpiresAt.Local().Format(time.DateTime))
	case err != nil:
		return err
	}
	if err := p.printStatus(s); err != nil {
		return err
	}
	if s.Status == "acked" || s.Status == "replied" || s.Status == "delivered" {
		return nil
	}
	return errors.New(s.ID + " was not acknowledged: it is " + s.Status)
}

func (p *program) printReceipt(r godwit.Receipt) error {
	if p.json {
		return p.line(r)
	}
	note := ""
	if r.Duplicate {
		note = " (published before: nothing was sent again)"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s for %s%s\n", p.paint(green, r.Status), r.ID, r.To, note)
	return err
}

func (p *program) printStatus(s godwit.Status) error {
	if p.json {
		return p.line(s)
	}
	colour := green
	if s.Status != "acked" && s.Status != "replied" {
		colour = red
	}
	took := ""
	if s.LatencyMS > 0 {
		took = fmt.Sprintf(" after %s", time.Duration(s.LatencyMS*float64(time.Millisecond)).Round(100*time.Microsecond))
	}
	answer := ""
	if s.Reply != nil && utf8.Valid(s.Reply.Data) {
		answer = clean(string(s.Reply.Data)) + "\n"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s by %s%s\n%s", p.paint(colour, s.Status), s.ID, s.To, took, answer)
	return err
}
