package object

import (
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Source is the client that caused a change and is not told of it: a recipient, or one of its devices. The zero
// Source is nobody.
type Source struct{ Recipient, Device string }

// ParseSource reads "client-3" or "client-3/device".
func ParseSource(s string) (Source, error) {
	if s == "" {
		return Source{}, nil
	}
	recipient, device, named := strings.Cut(s, "/")
	src := Source{Recipient: recipient, Device: device}
	if named && device == "" {
		return Source{}, notification.BadField("source", "names no device after the slash")
	}
	return src, src.Check()
}

func (s Source) String() string {
	if s.Device == "" {
		return s.Recipient
	}
	return s.Recipient + "/" + s.Device
}

// Check applies the rules for names.
func (s Source) Check() error {
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

// Is reports whether a client is the source.
func (s Source) Is(recipient, device string) bool {
	return s.Recipient != "" && s.Recipient == recipient && (s.Device == "" || s.Device == device)
}
