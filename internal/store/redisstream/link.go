package redisstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
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

// bufferBytes is what each connection reads and writes at once. The library's own half a megabyte each is for fewer, busier ones.
const bufferBytes = 64 << 10

// link is the connection to Redis: to one server, or to the masters of a cluster. It comes back by itself.
type link struct {
	main    rueidis.Client
	opts    rueidis.ClientOption // of a connection to one server
	cluster bool
}

// dial connects to the server, or the cluster, that URLs lead to.
func dial(ctx context.Context, urls []string) (*link, error) { return connect(ctx, urls, true) }

// connect is dial for URLs that an app's admin may have set. Unless private, only public addresses are dialled, also for the nodes that a
// cluster names, so that nobody reaches private services through this server.
func connect(ctx context.Context, urls []string, private bool) (*link, error) {
	opts, err := options(urls)
	if err != nil {
		return nil, err
	}
	if !private {
		opts.Dialer.Control = urlguard.Control
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachWithin, fmt.Errorf("no answer from Redis in %s", reachWithin))
	defer cancel()
	for {
		main, err := rueidis.NewClient(opts)
		if err == nil {
			return &link{main: main, opts: opts, cluster: main.Mode() == rueidis.ClientModeCluster}, nil
		}
		if _, said := rueidis.IsRedisErr(err); said && !mayPass(err) || errors.Is(err, urlguard.ErrPrivate) {
			return nil, fmt.Errorf("connect to Redis at %s: %w", opts.InitAddress[0], err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to Redis at %s: %w: %w", opts.InitAddress[0], context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// mayPass reports whether an error of Redis is temporary.
func mayPass(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && (said.IsLoading() || said.IsClusterDown() || said.IsTryAgain())
}

// options reads URLs. Errors name no URL: it may hold a password.
func options(urls []string) (rueidis.ClientOption, error) {
	if len(urls) == 0 {
		return rueidis.ClientOption{}, errors.New("no URL of Redis is given")
	}
	var opts rueidis.ClientOption
	for i, u := range urls {
		o, err := rueidis.ParseURL(u)
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
	opts.DisableRetry = true                                 // the callers decide when to try again; redirections are followed all the same
	opts.ClusterOption.ShardsRefreshInterval = topologyEvery // in addition to refreshes after redirections and lost connections
	opts.ClientName = "godwit"
	return opts, nil
}

func (l *link) close() { l.main.Close() }

// single connects to one server beside the main connection. If hints is given, the server calls it with keys that change; see finder.
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

// node is the connection to one master, for commands that concern no certain key. Nil: the master is not known (any more).
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
