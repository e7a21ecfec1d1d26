package lines

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// sourceKind reads lines from a server. Each has a recipient, an id and a title. The answer to each is its fate.
type sourceKind struct{}

// About implements source.Kind.
func (sourceKind) About() string { return "lines of a server" }

func (sourceKind) Fields() []setting.Field {
	return []setting.Field{{Name: "server", Address: true, Flag: "server", Help: "host:port of the server of lines"}}
}

func (sourceKind) Check(v setting.Values) error {
	if v.Text("server") == "" {
		return notification.BadField("server", "is required")
	}
	return nil
}

func (sourceKind) Open(ctx context.Context, t source.Target) (source.Feed, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Values.Text("server"))
	if err != nil {
		return nil, err
	}
	return feed{conn}, nil
}

// feed is a connection to a server of lines, which has the checkpoint: it repeats lines that were not confirmed.
type feed struct{ conn net.Conn }

func (feed) Finding() string { return "lines" }

func (f feed) Close() { _ = f.conn.Close() }

func (f feed) Run(ctx context.Context, to source.Emitter) error {
	defer context.AfterFunc(ctx, f.Close)()
	to.Caught(ctx)
	in := bufio.NewScanner(f.conn)
	for in.Scan() {
		outcomes, err := to.Emit(ctx, []source.Entry{entry(in.Text())})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(f.conn, outcomes[0].Fate); err != nil {
			return err
		}
	}
	return in.Err()
}

func entry(line string) source.Entry {
	e := source.Entry{From: Name}
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 3 {
		e.Wrong = fmt.Errorf("%q is not a recipient, an id and a title", line)
		return e
	}
	e.Publish = &notification.Draft{To: []string{parts[0]}, ID: parts[1], Content: notification.Content{Title: parts[2]}}
	return e
}
