package godwit

import (
	"encoding/json"
	"fmt"
	"strconv"

	pb "godwit.dev/godwit/api/godwitpb"
)

// Version is a version of an object, from 1 to 2^63-1; 0: none. It only grows.
type Version int64

func (v Version) String() string { return strconv.FormatInt(int64(v), 10) }

// ParseVersion parses a version as in JSON or typed by people: decimal digits from 1 to 2^63-1.
func ParseVersion(s string) (Version, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || s[0] < '1' || s[0] > '9' { // neither a sign nor a leading zero
		return 0, fmt.Errorf("version %q is not a whole number from 1 to 2^63-1", s)
	}
	return Version(n), nil
}

// MarshalJSON implements json.Marshaler: a string, because JavaScript's numbers end at 2^53.
func (v Version) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, v.String()), nil }

// UnmarshalJSON implements json.Unmarshaler: a string or a number.
func (v *Version) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	if text == "0" || text == "null" { // none
		*v = 0
		return nil
	}
	n, err := ParseVersion(text)
	*v = n
	return err
}

// Signal reports an object's version, or that its version is unknown.
type Signal struct {
	Group, Object string
	Version       Version // if Unknown: the floor, which the next version exceeds; 0: there was no version yet
	Unknown       bool    // the latest version is unknown: fetch the object from its source
	Payload       []byte  // at most 4 KB
	ContentType   string  // of Payload
}

func (s *Signal) key() objectKey { return objectKey{s.Group, s.Object} }

// register is the content of the frames register and unregister.
type register struct {
	Objects []string `json:"objects"`
	Group   string   `json:"group,omitempty"`
	Reset   bool     `json:"reset,omitempty"`
	More    bool     `json:"more,omitempty"`
}

type objectAck struct {
	Object  string  `json:"object"`
	Group   string  `json:"group,omitempty"`
	Version Version `json:"version"`
}

type ping struct {
	Digest string `json:"digest,omitempty"`
}

// registered confirms registrations, with the digest of all registrations that the server has.
type registered struct {
	Objects []string `json:"objects"`
	Group   string   `json:"group"`
	Digest  string   `json:"digest"`
}

// registrationFailed refuses registrations, for good or for now.
type registrationFailed struct {
	Objects   []string `json:"objects"`
	Group     string   `json:"group"`
	Code      string   `json:"code"`
	Transient bool     `json:"transient"`
}

// wireObject is a signal in JSON frames.
type wireObject struct {
	Group         string          `json:"group"`
	Object        string          `json:"object"`
	Version       Version         `json:"version"`
	Payload       json.RawMessage `json:"payload"`
	PayloadBase64 []byte          `json:"payload_base64"`
	ContentType   string          `json:"content_type"`
	Unknown       bool            `json:"unknown"`
}

func (w *wireObject) signal() (*Signal, error) {
	s := &Signal{Group: w.Group, Object: w.Object, Version: w.Version, Unknown: w.Unknown}
	var err error
	if s.Payload, s.ContentType, err = readData(w.Payload, w.PayloadBase64, w.ContentType); err != nil {
		return s, &memberError{"payload", err.Error()}
	}
	return s, nil
}

func (w *wireObject) frame() serverFrame { return signalFrame(w.signal()) }

// signalFrame returns a frame with the signal, or with an error: err, or that of an invalid name.
func signalFrame(s *Signal, err error) serverFrame {
	switch {
	case checkName("object", s.Object) != nil:
		err = &memberError{"object", "is not a name"}
	case s.Group != "" && checkName("group", s.Group) != nil:
		err = &memberError{"group", "is not a name"}
	case s.Version < 0:
		err = &memberError{"version", "is negative"}
	}
	if err != nil {
		return unread(err, "", s.key().String(), 0)
	}
	return serverFrame{Object: s}
}

func (r *register) proto() *pb.Register {
	return &pb.Register{Objects: r.Objects, Group: r.Group, Reset_: r.Reset, More: r.More}
}

// objectProto returns the protobuf form of a frame about objects; nil: the frame is about something else.
func (f *clientFrame) objectProto() *pb.ClientFrame {
	switch {
	case f.Register != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Register{Register: f.Register.proto()}}
	case f.Unregister != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Unregister{Unregister: f.Unregister.proto()}}
	case f.ObjectAck != nil:
		a := f.ObjectAck
		return &pb.ClientFrame{Frame: &pb.ClientFrame_ObjectAck{ObjectAck: &pb.ObjectAck{Object: a.Object, Group: a.Group, Version: int64(a.Version)}}}
	}
	return nil
}

// objectFromProto decodes the frames about objects.
func objectFromProto(p *pb.ServerFrame) (f serverFrame) {
	switch v := p.GetFrame().(type) {
	case *pb.ServerFrame_Registered:
		f.Registered = &registered{v.Registered.Objects, v.Registered.Group, v.Registered.Digest}
	case *pb.ServerFrame_RegistrationFailed:
		r := v.RegistrationFailed
		f.RegistrationFailed = &registrationFailed{r.Objects, r.Group, r.Code, r.Transient}
	case *pb.ServerFrame_Object:
		o := v.Object
		s := &Signal{o.Group, o.Object, Version(o.Version), o.Unknown, o.Payload, o.ContentType}
		return signalFrame(s, inJSON("payload", o.Payload, o.ContentType))
	case *pb.ServerFrame_Pong:
		f.Pong = &ping{v.Pong.Digest}
	}
	return f
}
