package redisstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/access/urlguard"
)

// How long Redis may take.
const (
	reachWithin = 10 * time.Second // for the first connection
	dialWithin  = 3 * time.Second  // for any other
	callWithin  = 5 * time.Second  // for an answer
)

// bufferBytes is the size of each connection's read and write buffers. The library's default of half a megabyte each is for fewer, busier
// connections.
const bufferBytes = 64 << 10

// link is the connection to Redis: to one server, or to the masters of a cluster. It reconnects by itself.
type link struct {
	main    rueidis.Client
	opts    rueidis.ClientOption // for connections to one server
	cluster bool
}

// dial connects to the server or cluster at the URLs, and tries again for reachWithin: both may start together.
func dial(ctx context.Context, urls []string) (*link, error) {
	opts, err := options(urls)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachWithin, fmt.Errorf("no answer from Redis in %s", reachWithin))
	defer cancel()
	for {
		l, err := open(opts)
		if _, said := rueidis.IsRedisErr(err); err == nil || said && !mayPass(err) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// connect is dial for URLs that an app's admin may have set, and tries once: the caller tells why it failed, and tries again. It dials only the targets,
// also for the nodes that a cluster names, so that this server gives nobody access to private services.
func connect(urls []string, targets urlguard.Targets) (*link, error) {
	opts, err := options(urls)
	if err != nil {
		return nil, err
	}
	if !targets.Everything() {
		opts.DialCtxFn = guarded(targets)
	}
	return open(opts)
}

func open(opts rueidis.ClientOption) (*link, error) {
	main, err := rueidis.NewClient(opts)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis at %s: %w", opts.InitAddress[0], err)
	}
	return &link{main: main, opts: opts, cluster: main.Mode() == rueidis.ClientModeCluster}, nil
}

// guarded dials as the library does, but only the targets.
func guarded(targets urlguard.Targets) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		d = targets.Guard(d, address)
		if secure == nil {
			return d.DialContext(ctx, "tcp", address)
		}
		return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", address)
	}
}

// mayPass reports whether a Redis error is temporary.
func mayPass(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && (said.IsLoading() || said.IsClusterDown() || said.IsTryAgain())
}

// options parses URLs. Its errors contain no URL, which may hold a password.
func options(urls []string) (rueidis.ClientOption, error) {
	if len(urls) == 0 {
		return rueidis.ClientOption{}, errors.New("no URL of Redis is given")
	}
	var opts rueidis.ClientOption
	for i, u := range urls {
		o, err := rueidis.ParseURL(strings.TrimSuffix(u, "/")) // a slash that names no database is none to people
		if _, bad := url.Parse(u); bad != nil || err != nil {
			return rueidis.ClientOption{}, fmt.Errorf("URL %d of Redis is none: write redis://host:6379, or rediss:// for TLS, with user:password@ if needed", i+1)
		}
		if i == 0 {
			opts = o
			continue
		}
		opts.InitAddress = append(opts.InitAddress, o.InitAddress...)
	}
	opts.InitAddress = slices.Compact(opts.InitAddress)
	opts.Dialer.Timeout = dialWithin
	opts.ConnWriteTimeout = callWithin
	opts.ReadBufferEachConn, opts.WriteBufferEachConn = bufferBytes, bufferBytes
	opts.PipelineMultiplex = -1 // one connection: simultaneous calls share writes
	opts.DisableCache = true
	opts.DisableRetry = true                                 // callers decide when to retry; redirections are still followed
	opts.ClusterOption.ShardsRefreshInterval = topologyEvery // in addition to refreshes after redirections and lost connections
	opts.ClientName = "godwit"
	return opts, nil
}

func (l *link) close() { l.main.Close() }

// single opens another connection to one server. If hints is not nil, it is called with the keys that change on the server; see finder.
func (l *link) single(addr string, hints func(keys []rueidis.RedisMessage)) (rueidis.Client, error) {
	o := l.opts
	o.InitAddress, o.ForceSingleClient = []string{addr}, true
	if hints != nil {
		o.DisableCache = false
		o.CacheSizeEachConn = 1 << 10 // nothing is cached
		o.ClientTrackingOptions = []string{"BCAST", "PREFIX", prefix}
		o.OnInvalidations = hints
	}
	return rueidis.NewClient(o)
}

// node returns the connection to one master, for commands without a key; nil: the master is unknown.
func (l *link) node(addr string) rueidis.Client {
	if !l.cluster {
		return l.main
	}
	return l.main.Nodes()[addr]
}

// ping reports whether Redis answers; in a cluster, whether every master does.
func (l *link) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
	defer cancel()
	t, err := l.topology(ctx)
	if err != nil {
		return err
	}
	for _, addr := range t.masters {
		c := l.node(addr)
		if c == nil {
			return fmt.Errorf("reach Redis at %s: it has just become a master", addr)
		}
		if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
			return fmt.Errorf("reach Redis at %s: %w", addr, err)
		}
	}
	if n := t.unowned(); n > 0 {
		return fmt.Errorf("reach Redis: %d slots of the cluster have no master", n)
	}
	return nil
}
