package lines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// channelKind makes senders that begin each line with a setting of the app.
type channelKind struct{ targets urlguard.Targets }

func (channelKind) Fields() []channel.Field {
	return []channel.Field{{Name: "greeting", Help: "what each line begins with"}}
}

func (channelKind) Auto() bool { return false }

func (channelKind) Complete(v channel.Values) (channel.Values, error) {
	if v["greeting"] == "" {
		return nil, notification.BadField("greeting", "is required")
	}
	return nil, nil
}

func (channelKind) Shown(channel.Values) map[string]string { return nil }

func (k channelKind) Open(_ string, v channel.Values) (push.Sender, error) {
	return sender{greeting: v["greeting"], targets: k.targets}, nil
}

// sender writes a line to each endpoint, which answers with the message's name.
type sender struct {
	greeting string
	targets  urlguard.Targets
}

func (s sender) Send(ctx context.Context, r push.Request) (receipt push.Receipt, err error) {
	var p place
	if err := json.Unmarshal(r.Address, &p); err != nil {
		return receipt, &push.PermanentError{Reason: "the address is damaged"}
	}
	conn, err := s.targets.Guard(new(net.Dialer), p.At).DialContext(ctx, "tcp", p.At)
	switch {
	case errors.Is(err, urlguard.ErrPrivate):
		return receipt, &push.PermanentError{Reason: "the endpoint is not at a public address"}
	case err != nil:
		return receipt, &push.RetryError{Reason: "the endpoint does not answer"}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "%s %s\n", s.greeting, r.Content.Title); err != nil {
		return receipt, &push.UnknownError{Reason: "the endpoint was gone"}
	}
	in := bufio.NewScanner(conn)
	if !in.Scan() {
		return receipt, &push.UnknownError{Reason: errors.Join(in.Err(), errors.New("there was no answer")).Error()}
	}
	return push.Receipt{ExternalID: in.Text()}, nil
}
