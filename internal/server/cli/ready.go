package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
)

// readyWithin limits the wait for a server's answer whether it is ready.
const readyWithin = 5 * time.Second

func (p *program) readyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Say whether the server on this machine is ready",
		Long: `Ask the server that uses the data folder for /readyz, and fail unless it is ready: what images without a shell check
their health with.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.settings(cmd)
			if err != nil {
				return err
			}
			if _, held := datadir.Held(c.Data); !held {
				return withHint(fmt.Errorf("no server uses %s", c.Data), "name the server's data folder with --data")
			}
			if _, err := adoptRunning(c); err != nil {
				return err
			}
			at, err := datadir.ReadAddresses(c.Data)
			if err != nil {
				return fmt.Errorf("the server of %s is starting or stopping: %w", c.Data, err)
			}
			if at.HTTP == "" {
				return errors.New("the server has no HTTP listener, so it cannot be asked")
			}
			if err := askReady(cmd.Context(), c, at.HTTP); err != nil {
				return err
			}
			return p.say("ready", "ready")
		},
	}
	config.AddFlags(cmd.Flags(), "data", "tls_cert", "tls_key")
	return cmd
}

// askReady asks the server at an address of this machine whether it is ready; an error is the reason why it is not.
func askReady(ctx context.Context, c *config.Config, addr string) error {
	scheme, transport := "http", &http.Transport{DisableKeepAlives: true}
	if c.TLSCert != "" {
		// Its certificate is for its public name, and the request contains nothing secret.
		scheme, transport.TLSClientConfig = "https", &tls.Config{InsecureSkipVerify: true}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the server did not answer within %s", readyWithin))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, displayAddr(scheme, addr)+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return withHint(fmt.Errorf("ask the server: %w", err), "look at its log")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return withHint(fmt.Errorf("not ready: %s", clean(string(body))), "look at the server's log")
	}
	return nil
}
