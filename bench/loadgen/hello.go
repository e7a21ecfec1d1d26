package loadgen

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

// followingDevice is the device name in the hello; the server keeps registrations by device.
const followingDevice = "unit"

func (s *Subscribers) helloJSON(recipient string) []byte {
	h := map[string]any{"app": s.cfg.App, "recipient": recipient}
	if s.cfg.Window > 0 {
		h["window"] = s.cfg.Window
	}
	if s.cfg.Heartbeat > 0 {
		h["heartbeat"] = fmt.Sprintf("%ds", int(s.cfg.Heartbeat/time.Second))
	}
	if f := s.followed; f != nil {
		h["group"], h["device"] = f.Group, followingDevice
	}
	b, err := json.Marshal(map[string]any{"hello": h})
	if err != nil {
		panic("loadgen: " + err.Error()) // strings and numbers always marshal
	}
	return b
}

func (s *Subscribers) helloProto(recipient string) []byte {
	h := &godwitpb.Hello{App: s.cfg.App, Recipient: recipient, Window: uint32(s.cfg.Window), HeartbeatMs: s.cfg.Heartbeat.Milliseconds()}
	if f := s.followed; f != nil {
		h.Group, h.Device = f.Group, followingDevice
	}
	b, err := proto.Marshal(&godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Hello{Hello: h}})
	if err != nil {
		panic("loadgen: " + err.Error()) // encoding fails only without required fields, and the frame has none
	}
	return b
}
