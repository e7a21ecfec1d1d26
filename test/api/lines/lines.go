// Package lines is a small module of lines of text over TCP: a gateway that takes and gives the frames of sessions, a channel that
// sends titles, and a source that reads notifications.
package lines

import (
	"context"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

// Name is the name of the module, its gateway, its channel and its kind of source.
const Name = "lines"

// Settings are its settings.
type Settings struct {
	Addr string `key:"lines_addr" default:"off" group:"Listeners" help:"address of the listener for lines, or off"`
}

// Module is the module.
func Module() module.Module {
	return module.Module{
		Name: Name, Settings: &Settings{},
		Channels: []channel.Brought{{Definition: definition(), Kind: func(o channel.Options) channel.Kind { return channelKind{o.Targets} }}},
		Sources:  map[string]source.Kind{Name: sourceKind{}},
		Start: func(_ context.Context, h *module.Host) error {
			return h.Listen(listen.Listener{Key: "lines_addr", Serve: serve(h)})
		},
	}
}

func definition() push.Definition {
	return push.Definition{
		Channel: Name, Number: 1001, Address: address,
		Policy: push.Policy{Group: 1, InFlight: 2, Share: 2, Timeout: 10 * time.Second},
	}
}

// place is the address of an endpoint: where a program reads lines.
type place struct {
	At string `json:"at"`
}

func address(fields map[string]json.RawMessage) (any, error) {
	var p place
	if len(fields) != 1 || json.Unmarshal(fields["at"], &p.At) != nil || p.At == "" {
		return nil, notification.BadField("address.at", "is required: host:port, and nothing else")
	}
	return p, nil
}
