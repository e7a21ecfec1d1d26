package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
)

// drainWith is the signal that makes a server drain. Whoever may send it could stop the process as well.
const drainWith = syscall.SIGUSR1

// drainSignal returns a channel that gets an element when the signal to drain arrives.
func drainSignal() (told <-chan struct{}, untold func()) {
	ch, out := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(ch, drainWith)
	done := make(chan struct{})
	go func() {
		select {
		case <-ch:
			out <- struct{}{}
		case <-done:
		}
	}()
	return out, func() {
		signal.Stop(ch)
		close(done)
	}
}

// drainLook is the interval at which the server's progress is read.
const drainLook = 100 * time.Millisecond

func (p *program) drainCommand() *cobra.Command {
	var timeout string
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have the server on this machine send its sessions to other nodes",
		Long: `Tell the server that uses the data folder that another node takes over: it is not ready any more, refuses new sessions and
sends away those that it has, spread over up to a minute. It goes on answering; stop it once this command returns.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			ctx, cancel, err := within(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			defer cancel()
			return p.drain(ctx, c.Data)
		},
	}
	cmd.Flags().StringVar(&timeout, "timeout", "2m", "fail if sessions are left after this long")
	config.AddFlags(cmd.Flags(), "data")
	return cmd
}

// drain makes the server of a data folder drain, and waits until it has.
func (p *program) drain(ctx context.Context, data string) error {
	pid, held := datadir.Held(data)
	if !held || pid == 0 {
		return withHint(fmt.Errorf("no server uses %s", data), "name the server's data folder with --data")
	}
	at, err := datadir.ReadAddresses(data)
	if err != nil {
		return withHint(fmt.Errorf("the server of %s is starting or stopping: %w", data, err), "try again when it is ready")
	}
	if at.Drain == "" {
		if err := syscall.Kill(pid, drainWith); err != nil {
			return fmt.Errorf("tell process %d to drain: %w", pid, err)
		}
	}
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for at.Drain != datadir.Drained {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server still has sessions: %w", ctx.Err())
		}
		switch at, err = datadir.ReadAddresses(data); {
		case errors.Is(err, fs.ErrNotExist):
			return p.say("stopped", "the server has stopped")
		case err != nil:
			return err
		}
	}
	return p.say("drained", "drained: the server has no sessions any more and can be stopped")
}

// say prints the result of an action.
func (p *program) say(state, text string) error {
	if p.json {
		return p.line(map[string]string{"state": state})
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}
