package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

const (
	minInterval = 100 * time.Millisecond // at shorter intervals the readings would mostly measure themselves
	mostSlowest = 100                    // that a server lists
)

type topFlags struct {
	sort, interval string
	once           bool
	sessions       int
}

// top shows a server's figures at intervals.
type top struct {
	p        *program
	c        *godwit.Client
	by       string
	every    time.Duration
	sessions int
	last     godwit.Stats
	shown    load
	trouble  error // why the newest reading failed
}

func (p *program) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running server: clients, traffic, latency, store, slowest sessions",
		Long: `Watch a running server: clients, traffic, latency, store, and the app's slowest sessions. Rates and latencies are of
the time between two readings. On a terminal it fills the screen, and keys change what is shown: o, u and b sort by
the oldest unacknowledged notification, by how many there are, and by bytes queued; space reads at once; q quits.
Elsewhere it prints one view after the other, with --json an object a line. It needs an API key with role read.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := p.newTop(&f)
			if err != nil {
				return err
			}
			defer t.c.Close()
			if err := t.read(cmd.Context()); err != nil {
				return err
			}
			in, out, interactive := p.screen()
			if !interactive || p.json || f.once {
				return t.print(cmd.Context(), f.once)
			}
			return t.watch(cmd.Context(), in, out)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.sort, "sort", "oldest", "sort sessions by oldest (unacknowledged), unacked (number) or queued (bytes)")
	s.StringVar(&f.interval, "interval", "2s", "time between two readings")
	s.BoolVar(&f.once, "once", false, "print the figures of one interval and end")
	s.IntVar(&f.sessions, "sessions", 20, "most sessions to list, up to 100; 0: none")
	return cmd
}

func (p *program) newTop(f *topFlags) (*top, error) {
	every, err := notification.ParseDuration(f.interval)
	if err != nil || every < minInterval {
		return nil, usagef("--interval %s is not a duration of at least %s", f.interval, minInterval)
	}
	switch f.sort {
	case "oldest", "unacked", "queued":
	default:
		return nil, usagef("--sort must be one of oldest, unacked, queued")
	}
	if f.sessions < 0 || f.sessions > mostSlowest {
		return nil, usagef("--sessions must be from 0 to %d", mostSlowest)
	}
	c, err := p.client()
	if err != nil {
		return nil, err
	}
	return &top{p: p, c: c, by: f.sort, every: every, sessions: f.sessions}, nil
}

// screen returns the terminal; ok is false unless both input and output are one.
func (p *program) screen() (in, out *os.File, ok bool) {
	in, isIn := p.stdin.(*os.File)
	out, isOut := p.stdout.(*os.File)
	return in, out, isIn && isOut && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) && p.env("TERM") != "dumb"
}

// read reads the statistics and computes the difference from the previous reading.
func (t *top) read(ctx context.Context) error {
	now, err := t.c.Stats(ctx, t.sessions, t.by)
	if t.trouble = err; err != nil {
		return err
	}
	t.shown = loadBetween(&t.last, &now)
	t.last = now
	return nil
}

// print prints views one after the other.
func (t *top) print(ctx context.Context, once bool) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // interrupted
		}
		if err := t.read(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // interrupted
			}
			return err
		}
		if err := t.say(once); err != nil || once {
			return err
		}
	}
}

func (t *top) say(once bool) error {
	if t.p.json {
		return t.p.line(&t.shown)
	}
	text := strings.Join(t.shown.lines(t.by, 0), "\n") + "\n"
	if !once {
		text += "\n"
	}
	_, err := io.WriteString(t.p.stdout, text)
	return err
}

// Control sequences of a terminal: switch to another screen without a cursor, and back; move to the top; clear the rest of the line or
// screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	goHome      = "\x1b[H"
	restOfLine  = "\x1b[K"
	restOfAll   = "\x1b[J"
)

// watch fills a terminal until a key or a signal ends it, and then restores the terminal.
func (t *top) watch(ctx context.Context, in, out *os.File) (err error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("take over the terminal: %w", err)
	}
	defer func() {
		_, werr := io.WriteString(out, leaveScreen)
		err = errors.Join(err, werr, term.Restore(int(in.Fd()), was))
	}()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	keys := make(chan byte)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go readKeys(ctx, in, keys) // the goroutine waits for a key that may never come: it ends with the process
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		if err := t.draw(out); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case key, open := <-keys:
			if !open || !t.key(key) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		_ = t.read(ctx) // the view shows the error; the server may come back
	}
}

func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	defer close(keys)
	one := make([]byte, 1)
	for {
		if _, err := in.Read(one); err != nil {
			return
		}
		select {
		case keys <- one[0]:
		case <-ctx.Done():
			return
		}
	}
}

// key handles a key; it returns false to quit.
func (t *top) key(k byte) bool {
	switch k {
	case 'o':
		t.by = "oldest"
	case 'u':
		t.by = "unacked"
	case 'b':
		t.by = "queued"
	case 'q', 'Q', 3, 4: // Ctrl-C, Ctrl-D
		return false
	}
	return true
}

// draw writes the view over the previous one.
func (t *top) draw(out *os.File) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	lines := t.shown.lines(t.by, height-1)
	foot, colour := fmt.Sprintf("every %s   o oldest   u unacked   b queued bytes   space now   q quit", t.every), faint
	if t.trouble != nil {
		foot, colour = clean(t.trouble.Error()), red
	}
	var b strings.Builder
	b.WriteString(goHome)
	for i := range height - 1 {
		line := ""
		if i < len(lines) {
			line = clip(lines[i], width)
		}
		if i == 0 || strings.HasPrefix(line, "RECIPIENT") {
			line = t.p.paint(bold, line)
		}
		b.WriteString(line + restOfLine + "\r\n")
	}
	b.WriteString(t.p.paint(colour, clip(foot, width)) + restOfAll)
	_, err = io.WriteString(out, b.String())
	return err
}

// clip cuts a line to the width of a terminal, counting one column for each character.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width])
}
