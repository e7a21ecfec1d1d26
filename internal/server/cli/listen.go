package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

type listenFlags struct {
	sessionFlags
	ack, peek bool
	device    string
	count     int
}

func (p *program) listenCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "listen RECIPIENT",
		Short: "Print a recipient's notifications as they come",
		Long: `Print a recipient's notifications as they come. On a development server it acknowledges what it prints. Elsewhere say
what is meant: --ack acknowledges, which settles notifications for good, and needs the recipient's token in
GODWIT_TOKEN or --token-file; --peek only observes, with an API key of role read.`,
		Args: exactly("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.listen(cmd.Context(), args[0], &f) },
	}
	s := cmd.Flags()
	s.BoolVar(&f.ack, "ack", false, "acknowledge what is printed, which settles it")
	s.BoolVar(&f.peek, "peek", false, "only observe: acknowledge nothing")
	s.StringVar(&f.device, "device", "", "name of this device")
	f.add(s)
	s.IntVarP(&f.count, "count", "n", 0, "end after this many notifications")
	return cmd
}

func (p *program) listen(ctx context.Context, recipient string, f *listenFlags) error {
	if f.ack && f.peek {
		return usagef("--ack and --peek contradict each other")
	}
	token, err := p.token(f.tokenFile)
	if err != nil {
		return err
	}
	if token != "" && !f.ack && !f.peek {
		return withHint(usagef("listening acknowledges, which settles notifications for good"), "add --ack if that is meant, or --peek to observe only")
	}
	return p.connected(ctx, token, &f.sessionFlags, func(ctx context.Context, c *godwit.Client) error {
		return p.listenWith(ctx, c, recipient, f)
	})
}

func (p *program) listenWith(parent context.Context, c *godwit.Client, recipient string, f *listenFlags) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	printer := &printer{p: p, want: f.count, stop: stop}
	session := &link{p: p, stop: stop}
	opts := append(session.options(), godwit.OnRecall(printer.recall))
	if f.device != "" {
		opts = append(opts, godwit.Device(f.device))
	}
	if f.peek {
		opts = append(opts, godwit.Peek())
	}
	err := c.Listen(ctx, recipient, printer.handle, opts...)
	err = session.failure(printer.err, err)
	if err == nil && f.count > 0 && printer.seen < f.count && errors.Is(parent.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%d of %d notifications came in %s", printer.seen, f.count, f.timeout)
	}
	return err
}

// note prints a remark about the connection to standard error, apart from the output.
func (p *program) note(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(p.stderr, "%s\n", p.paint(faint, clean(fmt.Sprintf(format, args...))))
	}
}

// printer prints notifications, one at a time.
type printer struct {
	p    *program
	want int
	stop func()

	mu   sync.Mutex
	seen int
	err  error
}

var errEnough = errors.New("enough were seen")

func (pr *printer) handle(_ context.Context, n *godwit.Notification) error {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.want > 0 && pr.seen >= pr.want {
		return errEnough
	}
	if err := pr.p.printNotification(n); err != nil {
		pr.err = err
		pr.stop()
		return err // not printed, not acknowledged
	}
	if pr.seen++; pr.seen == pr.want {
		pr.stop()
	}
	return nil
}

func (pr *printer) recall(ids []string) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.p.json {
		if err := pr.p.line(map[string]any{"recall": map[string]any{"ids": ids}}); err != nil {
			pr.err = err
		}
		return
	}
	pr.p.note("recalled %s", strings.Join(ids, " "))
}

func (p *program) printNotification(n *godwit.Notification) error {
	if p.json {
		return p.line(notificationJSON(n))
	}
	text := clean(n.Title)
	if n.Body != "" {
		if text != "" {
			text += ": "
		}
		text += clean(n.Body)
	}
	if len(n.Data) > 0 {
		text += " " + p.paint(faint, clean(string(n.Data)))
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s %s\n", time.Now().Format(time.TimeOnly), p.paint(bold, clean(n.ID)), text)
	return err
}

// notificationJSON returns a notification in the form of frames.
func notificationJSON(n *godwit.Notification) map[string]any {
	v := map[string]any{
		"id": n.ID, "seq": n.Seq, "title": n.Title, "body": n.Body, "category": n.Category, "priority": n.Priority,
		"created_at": n.CreatedAt, "expires_at": n.ExpiresAt, "attempt": n.Attempt,
	}
	if len(n.Data) > 0 {
		v["content_type"] = n.ContentType
		switch {
		case notification.IsJSON(n.ContentType):
			v["data"] = json.RawMessage(n.Data)
		case strings.HasPrefix(n.ContentType, "text/"):
			v["data"] = string(n.Data)
		default:
			v["data_base64"] = n.Data
		}
	}
	return v
}

func (p *program) eventsCommand() *cobra.Command {
	var since string
	var types []string
	var count int
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happens to notifications and recipients, as it happens",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			defer c.Close()
			ctx := cmd.Context()
			seen := 0
			for ev, err := range c.Events(ctx, since, types...) {
				if err != nil {
					if ctx.Err() != nil {
						return nil // interrupted
					}
					return err
				}
				if err := p.printEvent(ev); err != nil {
					return err
				}
				if seen++; seen == count {
					return nil
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "begin after this event_id; 0: with the oldest kept (default: now)")
	cmd.Flags().StringSliceVar(&types, "types", nil, "only these: "+strings.Join(eventTypes, " "))
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this many")
	return cmd
}

func (p *program) printEvent(ev godwit.Event) error {
	if p.json {
		return p.line(ev)
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s %-9s %s %s\n", p.paint(faint, ev.EventID), ev.At.Local().Format("15:04:05.000"), ev.Type, clean(ev.To), strings.TrimSpace(clean(ev.ID)+" "+clean(ev.Channel)))
	return err
}
