package blackbox

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/coder/websocket"
)

// PushDevice is a device of a server's push service. Its zero value is a new one.
type PushDevice struct {
	UAID string // by which the server knows it again
	ws   *websocket.Conn
}

// PushFrame is a message of the server to a device.
type PushFrame struct {
	MessageType, UAID, PushEndpoint, ChannelID, Version, Data string
	Status                                                    int
	Headers                                                   map[string]string
}

// Connect connects the device to a server at host:port, and says hello. It fails if the server does not know the device any more.
func (d *PushDevice) Connect(ctx context.Context, addr string) error {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/push", &websocket.DialOptions{Subprotocols: []string{"push-notification"}}) // the library closes it
	if err != nil {
		return err
	}
	d.ws = ws
	hello, err := d.Ask(ctx, map[string]any{"messageType": "hello", "uaid": d.UAID, "use_webpush": true})
	if err == nil && d.UAID != "" && hello.UAID != d.UAID {
		err = errors.New("the device is not known any more")
	}
	if err != nil {
		d.Cut()
		return err
	}
	d.UAID = hello.UAID
	return nil
}

// Cut ends the connection without a goodbye.
func (d *PushDevice) Cut() { _ = d.ws.CloseNow() }

// Send sends a message.
func (d *PushDevice) Send(ctx context.Context, m map[string]any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return d.ws.Write(ctx, websocket.MessageText, b)
}

// Next is the server's next message.
func (d *PushDevice) Next(ctx context.Context) (f PushFrame, err error) {
	_, b, err := d.ws.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	return f, err
}

// Ask sends a message, and returns the next one of the server.
func (d *PushDevice) Ask(ctx context.Context, m map[string]any) (PushFrame, error) {
	if err := d.Send(ctx, m); err != nil {
		return PushFrame{}, err
	}
	return d.Next(ctx)
}

// Subscribe makes a channel for a sender's key, or for any sender, and returns its push endpoint.
func (d *PushDevice) Subscribe(ctx context.Context, key string) (endpoint string, err error) {
	m := map[string]any{"messageType": "register", "channelID": "deadbeef-0000-4000-8000-0123456789ab"}
	if key != "" {
		m["key"] = key
	}
	f, err := d.Ask(ctx, m)
	if err == nil && f.PushEndpoint == "" {
		err = errors.New("the server registers no channel")
	}
	return f.PushEndpoint, err
}

// Ack acknowledges a message.
func (d *PushDevice) Ack(ctx context.Context, f *PushFrame) error {
	return d.Send(ctx, map[string]any{"messageType": "ack", "updates": []any{map[string]any{"channelID": f.ChannelID, "version": f.Version, "code": 100}}})
}
