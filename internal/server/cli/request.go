package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

// maxQuestion limits the body of a request, in bytes.
const maxQuestion = 1 << 20

func (p *program) requestCommand() *cobra.Command {
	var timeout, data, contentType, recipient, device string
	cmd := &cobra.Command{
		Use:   "request SUBJECT [-]",
		Short: "Ask a worker, or with --recipient a connected client",
		Long: `Ask one of those who serve a subject, and print the answer. The body is --data, or standard input with "-". It fails if
nobody serves the subject, no answer comes in time, or the answer's status is 400 or more. It is asked once: where no answer comes, the
worker may have done what it was asked.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "-" {
				return usagef("name one subject, and - to read the body from standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o := godwit.AskOptions{ContentType: contentType, Device: device}
			if timeout != "" {
				d, err := notification.ParseDuration(timeout)
				if err != nil || d <= 0 {
					return usagef("--timeout %s is not a duration like 10s", timeout)
				}
				o.Timeout = d
			}
			body := []byte(data)
			if len(args) == 2 {
				var err error
				if body, err = io.ReadAll(io.LimitReader(p.stdin, maxQuestion+1)); err != nil {
					return fmt.Errorf("read body: %w", err)
				}
			}
			return p.request(cmd.Context(), args[0], recipient, body, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "body")
	f.StringVar(&contentType, "content-type", "", "type of the body")
	f.StringVar(&timeout, "timeout", "", "how long to wait for an answer, at most 60s (default 5s)")
	f.StringVar(&recipient, "recipient", "", "ask this recipient's newest connected client instead of workers")
	f.StringVar(&device, "device", "", "which device of the recipient")
	return cmd
}

func (p *program) request(ctx context.Context, subject, recipient string, body []byte, o godwit.AskOptions) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var a *godwit.Answer
	if recipient == "" {
		a, err = c.Ask(ctx, subject, body, o)
	} else {
		o.Subject = subject
		a, err = c.AskRecipient(ctx, recipient, body, o)
	}
	if err != nil {
		return err
	}
	if _, err := p.stdout.Write(a.Data); err != nil {
		return err
	}
	if a.Status >= 400 {
		return fmt.Errorf("the answer's status is %d", a.Status)
	}
	return nil
}

func (p *program) serveSubjectCommand() *cobra.Command {
	var queue, recipient string
	var workers int
	cmd := &cobra.Command{
		Use:   "serve-subject SUBJECT... -- COMMAND [ARG...]",
		Short: "Answer requests with a command",
		Long: `Answer requests to subjects with a command: the body on its standard input, its standard output as the answer. An exit status
other than 0 answers 500 with what it wrote to standard error. GODWIT_SUBJECT, GODWIT_METHOD, GODWIT_PATH and GODWIT_QUERY say what was asked.
Of those who serve the same subjects with the same --queue, one gets each request. The key needs the roles worker and read.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n < 1 || n == len(args) {
				return usagef("name the subjects, then -- and the command that answers")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n := cmd.ArgsLenAtDash()
			return p.serveSubject(cmd.Context(), recipient, queue, workers, args[:n], args[n:])
		},
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "queue to share requests in (default: that of all who name none)")
	f.StringVar(&recipient, "recipient", "worker", "name under which the worker connects")
	f.IntVar(&workers, "concurrency", 4, "how many commands may run at once")
	return cmd
}

func (p *program) serveSubject(ctx context.Context, recipient, queue string, workers int, subjects, command []string) error {
	if workers < 1 || workers > 1024 {
		return usagef("--concurrency %d is not between 1 and 1024", workers)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return fmt.Errorf("cannot run %s: %w", command[0], err)
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	opts := []godwit.ListenOption{
		godwit.Window(workers),
		godwit.OnServing(func() { fmt.Fprintf(p.stderr, "serving %q\n", subjects) }),
		godwit.OnDisconnect(func(err error, retry time.Duration) {
			fmt.Fprintf(p.stderr, "disconnected: %v; connecting again in %s\n", err, retry.Round(time.Millisecond))
		}),
		godwit.OnError(func(err error) { fmt.Fprintln(p.stderr, err) }),
	}
	if queue != "" {
		opts = append(opts, godwit.Queue(queue))
	}
	err = c.Serve(ctx, recipient, subjects, func(ctx context.Context, r *godwit.Request) (*godwit.Answer, error) {
		return runCommand(ctx, command, r), nil
	}, opts...)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // Ctrl-C is the regular way to end the command
	}
	return err
}

// runCommand answers a request with a command's output. At the request's deadline the command is killed.
func runCommand(ctx context.Context, command []string, r *godwit.Request) *godwit.Answer {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(cmd.Environ(), "GODWIT_SUBJECT="+r.Subject, "GODWIT_METHOD="+r.Method, "GODWIT_PATH="+r.Path, "GODWIT_QUERY="+r.Query)
	cmd.Stdin = bytes.NewReader(r.Data)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(stderr.Bytes())
		var exit *exec.ExitError
		if len(text) == 0 && errors.As(err, &exit) {
			text = []byte("the command ended with status " + strconv.Itoa(exit.ExitCode()))
		} else if len(text) == 0 {
			text = []byte(err.Error())
		}
		return &godwit.Answer{Status: 500, Data: text, ContentType: "text/plain; charset=utf-8"}
	}
	return &godwit.Answer{Data: stdout.Bytes(), ContentType: r.ContentType}
}
