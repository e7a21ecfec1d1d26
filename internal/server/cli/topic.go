package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

func (p *program) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Publish to topics, and print what is published to them",
		Long: `Topics are publish and subscribe, at most once: who subscribes now gets a message, and nothing is kept. A topic is
of tokens with dots between, like rides.oslo; in a pattern * stands for any one token and a final > for one or more.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.topicPubCommand(), p.topicSubCommand())
	return cmd
}

func (p *program) topicPubCommand() *cobra.Command {
	var contentType string
	cmd := &cobra.Command{
		Use:   "pub TOPIC [DATA]",
		Short: "Publish a message to a topic",
		Long: `Publish a message of up to 64 KB to a topic. DATA is JSON or text; @FILE reads it from a file, - from standard input.
Whoever subscribes now gets it; nobody tells whom it reached.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				args = args[:1]
			}
			return exactly("topic")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topic.CheckName("topic", args[0]); err != nil {
				return usagef("%w", err)
			}
			m := godwit.Message{Topic: args[0], ContentType: contentType}
			if len(args) == 2 {
				var err error
				if m.Data, err = p.messageData(args[1]); err != nil {
					return err
				}
			}
			return p.topicPub(cmd.Context(), m)
		},
	}
	cmd.Flags().StringVar(&contentType, "type", "", "content type (default: JSON if the data is, else text if it is UTF-8, else bytes)")
	return cmd
}

// messageData reads the data of a message from the source that the argument names.
func (p *program) messageData(arg string) (b []byte, err error) {
	file, isFile := strings.CutPrefix(arg, "@")
	switch {
	case arg == "-":
		b, err = io.ReadAll(io.LimitReader(p.stdin, godwit.MaxMessage+1))
	case isFile:
		b, err = os.ReadFile(file)
	default:
		b = []byte(arg)
	}
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	if len(b) > godwit.MaxMessage {
		return nil, fmt.Errorf("the data is larger than %d bytes", godwit.MaxMessage)
	}
	return b, nil
}

func (p *program) topicPub(ctx context.Context, m godwit.Message) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.PublishMessage(ctx, m); err != nil {
		return err
	}
	if p.json {
		return p.line(map[string]any{"topic": m.Topic, "bytes": len(m.Data)})
	}
	return nil
}

type topicSubFlags struct {
	sessionFlags
	recipient, queue string
	count            int
}

func (p *program) topicSubCommand() *cobra.Command {
	var f topicSubFlags
	cmd := &cobra.Command{
		Use:   "sub PATTERN...",
		Short: "Print what is published to topics, as it comes",
		Long: `Print what is published to topics, as it comes. With a token in GODWIT_TOKEN or --token-file it subscribes as its
recipient to what the token's topics allow, else with an API key: of role read as an observer, with --queue of role
publish. Of those who subscribe with the same --queue, one gets each message.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("pattern")(cmd, args)
			}
			for _, a := range args {
				if err := topic.CheckPattern("pattern", a); err != nil {
					return usagef("%w", err)
				}
			}
			return p.topicSub(cmd.Context(), args, &f)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.queue, "queue", "", "share the messages with others who name the same queue")
	s.StringVar(&f.recipient, "recipient", "", "recipient to be, where no token says it (default: a new one)")
	f.add(s)
	s.IntVarP(&f.count, "count", "n", 0, "end after this many messages")
	return cmd
}

func (p *program) topicSub(ctx context.Context, patterns []string, f *topicSubFlags) error {
	token, err := p.token(f.tokenFile)
	if err != nil {
		return err
	}
	var listen []godwit.ListenOption
	if token == "" && f.recipient == "" {
		f.recipient = "topics-" + rand.Text()[:8]
		if f.queue == "" {
			listen = append(listen, godwit.Peek())
		}
	}
	if token == "" && f.queue != "" { // a member of a queue is more than an observer, and connects with the API key as its token
		s, err := p.server()
		if err != nil {
			return err
		}
		token = s.key
	}
	return p.connected(ctx, token, &f.sessionFlags, func(ctx context.Context, c *godwit.Client) error {
		return p.subscribeWith(ctx, c, patterns, f, listen)
	})
}

func (p *program) subscribeWith(parent context.Context, c *godwit.Client, patterns []string, f *topicSubFlags, opts []godwit.ListenOption) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	s := &subscriber{p: p, want: f.count, stop: stop}
	topics := godwit.NewTopics(s.message, godwit.OnGap(s.gap), godwit.OnRefused(s.refused))
	var err error
	if f.queue == "" {
		err = topics.Subscribe(patterns...)
	} else {
		err = topics.SubscribeQueue(f.queue, patterns...)
	}
	if err != nil {
		return usagef("%w", err)
	}
	var noting sync.WaitGroup
	noting.Go(func() {
		if topics.Active(ctx) == nil {
			p.note("subscribed to %s", strings.Join(patterns, " "))
		}
	})
	session := &link{p: p, stop: stop}
	opts = append(append(opts, godwit.Subscriptions(topics)), session.options()...)
	err = c.Listen(ctx, f.recipient, nil, opts...)
	stop()
	noting.Wait()
	var refused *godwit.RefusedError
	switch {
	case s.err != nil:
		return s.err
	case session.err != nil:
		return session.err
	case errors.As(err, &refused):
		return err
	case f.count > 0 && s.seen < f.count && errors.Is(parent.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%d of %d messages came in %s", s.seen, f.count, f.timeout)
	}
	return nil // interrupted, or enough seen
}

// subscriber prints messages. Its methods are called one at a time, and never again once its fields are read.
type subscriber struct {
	p    *program
	want int
	stop func()
	seen int
	err  error
}

func (s *subscriber) message(_ context.Context, m *godwit.Message) {
	if s.err != nil || s.want > 0 && s.seen >= s.want {
		return
	}
	if s.err = s.p.printMessage(m); s.err != nil {
		s.stop()
		return
	}
	if s.seen++; s.seen == s.want {
		s.stop()
	}
}

func (s *subscriber) gap(n int) {
	if !s.p.json {
		s.p.note("%d messages were dropped: this end was too slow", n)
		return
	}
	if s.err = s.p.line(map[string]any{"gap": n}); s.err != nil {
		s.stop()
	}
}

func (s *subscriber) refused(e *godwit.SubscriptionError) {
	s.err = withHint(e, "the token's claim topics lists what it may subscribe to: godwit token --topics")
	s.stop()
}

func (p *program) printMessage(m *godwit.Message) error {
	if p.json {
		return p.line(messageJSON(m))
	}
	text := clean(string(m.Data))
	if !utf8.Valid(m.Data) {
		text = fmt.Sprintf("(%d bytes of %s)", len(m.Data), clean(m.ContentType))
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s %s\n", time.Now().Format(time.TimeOnly), p.paint(bold, clean(m.Topic)), text)
	return err
}

// messageJSON returns a message in the form of frames.
func messageJSON(m *godwit.Message) map[string]any {
	v := map[string]any{"topic": m.Topic}
	if len(m.Data) == 0 {
		return v
	}
	v["content_type"] = m.ContentType
	switch {
	case notification.IsJSON(m.ContentType) && json.Valid(m.Data):
		v["data"] = json.RawMessage(m.Data)
	case utf8.Valid(m.Data):
		v["data"] = string(m.Data)
	default:
		v["data_base64"] = m.Data
	}
	return v
}
