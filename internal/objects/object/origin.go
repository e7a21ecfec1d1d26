package object

import (
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Origin is the client that caused a change and need not be informed: a recipient, or one of its devices. The zero Origin is no client.
type Origin struct{ Recipient, Device string }

// ParseOrigin reads "client-3" or "client-3/device".
func ParseOrigin(s string) (Origin, error) {
	if s == "" {
		return Origin{}, nil
	}
	recipient, device, named := strings.Cut(s, "/")
	src := Origin{Recipient: recipient, Device: device}
	if named && device == "" {
		return Origin{}, notification.BadField("source", "names no device after the slash")
	}
	return src, src.Check()
}

func (s Origin) String() string {
	if s.Device == "" {
		return s.Recipient
	}
	return s.Recipient + "/" + s.Device
}

// Check applies the rules for names.
func (s Origin) Check() error {
	for i, name := range []string{s.Recipient, s.Device} {
		if name == "" && (i == 1 || s.Device == "") {
			continue
		}
		if err := notification.CheckName("source", name); err != nil {
			return err
		}
	}
	return nil
}

// Is reports whether a client is the origin.
func (s Origin) Is(recipient, device string) bool {
	return s.Recipient != "" && s.Recipient == recipient && (s.Device == "" || s.Device == device)
}
