package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/notify/notification"
)

// sessionFlags set the connection of a command as a recipient, and its timeout.
type sessionFlags struct{ app, tokenFile, grpc, timeout string }

func (f *sessionFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.app, "app", "", "app, where the server has several and no token says it")
	s.StringVar(&f.tokenFile, "token-file", "", "file with the recipient's token (default: the token in GODWIT_TOKEN)")
	s.StringVar(&f.grpc, "grpc", "", "connect with gRPC to this address (host:50051) instead of a WebSocket; with TLS if the server's URL is https or the address begins with grpcs://, without if it begins with grpc://")
	s.StringVar(&f.timeout, "timeout", "", "end after this long; with --count, fail if they have not come by then")
}

// token reads the recipient's token; never from the arguments, which other users can see.
func (p *program) token(file string) (string, error) {
	if file == "" {
		return p.env("GODWIT_TOKEN"), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return textfile.Plain(b), nil
}

// connected runs do with a client that connects as a recipient, until --timeout.
func (p *program) connected(ctx context.Context, token string, f *sessionFlags, do func(context.Context, *godwit.Client) error) error {
	c, err := p.recipientClient(token, f.app, f.grpc)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel, err := within(ctx, f.timeout)
	if err != nil {
		return err
	}
	defer cancel()
	return do(ctx, c)
}

// recipientClient makes a client that connects as a recipient. The context supplies arguments that are empty.
func (p *program) recipientClient(token, app, grpcAddr string) (*godwit.Client, error) {
	var opts []godwit.Option
	if token != "" {
		opts = append(opts, godwit.WithToken(token))
	}
	if app != "" {
		opts = append(opts, godwit.WithApp(app))
	}
	if grpcAddr != "" {
		way, err := p.overGRPC(grpcAddr)
		if err != nil {
			return nil, err
		}
		opts = append(opts, way)
	}
	return p.client(opts...)
}

// overGRPC makes a client connect to the address in --grpc. If the server's URL has TLS, this connection has it too: a token must not
// travel in the clear just because of the port.
func (p *program) overGRPC(addr string) (godwit.Option, error) {
	s, err := p.server()
	if err != nil {
		return nil, err
	}
	secure := strings.HasPrefix(s.url, "https://")
	if scheme, rest, ok := strings.Cut(addr, "://"); ok {
		if scheme != "grpc" && scheme != "grpcs" {
			return nil, withHint(usagef("--grpc %s is not an address", addr), "write it like localhost:50051, or grpcs://godwit.example.org:50051 for TLS")
		}
		secure, addr = scheme == "grpcs", rest
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, withHint(usagef("--grpc %s has no port", addr), "write it like localhost:50051")
	}
	if !secure {
		return godwit.WithGRPC(addr), nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		if conf.RootCAs, err = authorities(s.ca); err != nil {
			return nil, err
		}
	}
	return godwit.WithGRPC(addr, grpc.WithTransportCredentials(credentials.NewTLS(conf))), nil
}

// within limits ctx by the flag --timeout, if it is given.
func within(ctx context.Context, timeout string) (context.Context, context.CancelFunc, error) {
	if timeout == "" {
		return ctx, func() {}, nil
	}
	d, err := notification.ParseDuration(timeout)
	if err != nil {
		return nil, nil, usagef("--timeout: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel, nil
}
