package frame

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/objects/object"
)

// checkObjects applies the rules of register, unregister and object_ack.
func (c *Client) checkObjects() error {
	if len(c.Group) > 0 && !isName(c.Group) {
		return nameError(c.Kind, "group", string(c.Group))
	}
	if c.Kind == KindObjectAck {
		if !isName(c.Object) {
			return nameError(c.Kind, "object", string(c.Object))
		}
		if c.Version <= 0 { // an unknown version needs no acknowledgement
			return badField(c.Kind, "version", "must be from 1 to 2^63-1")
		}
		return nil
	}
	if len(c.Objects) == 0 && !c.Reset {
		return badField(c.Kind, "objects", "is required")
	}
	for _, o := range c.Objects {
		if !isName(o) {
			return nameError(c.Kind, "objects", string(o))
		}
	}
	return nil
}

var registerFields = map[string]reader{
	"objects": readObjects, "group": readGroup,
	"reset": func(v json.RawMessage, c *Client) string { return readBool(v, &c.Reset) },
	"more":  func(v json.RawMessage, c *Client) string { return readBool(v, &c.More) },
}

func readObjects(v json.RawMessage, into *Client) string {
	names, problem := texts(v)
	if len(names) > MaxObjects {
		return fmt.Sprintf("has more than %d entries", MaxObjects)
	}
	for _, name := range names {
		into.Objects = append(into.Objects, []byte(name))
	}
	return problem
}

func readGroup(v json.RawMessage, into *Client) string {
	s, problem := text(v)
	into.Group = []byte(s)
	return problem
}

func readObject(v json.RawMessage, into *Client) string {
	s, problem := text(v)
	into.Object = []byte(s)
	return problem
}

func readVersion(v json.RawMessage, into *Client) (problem string) {
	var err error
	if into.Version, err = object.ParseVersion(string(v)); err != nil {
		return "must be a whole number from 1 to 2^63-1"
	}
	return ""
}

func readBool(v json.RawMessage, into *bool) string {
	s := string(v)
	if *into = s == "true"; !*into && s != "false" {
		return "must be true or false"
	}
	return ""
}

func (c *Client) setObjectBytes(num protowire.Number, v []byte) error {
	switch {
	case num == 1 && c.Kind == KindObjectAck:
		c.Object = v
		return checkText(c.Kind, "object", v)
	case num == 1 && len(c.Objects) == MaxObjects:
		return tooMany(c.Kind, "objects", MaxObjects)
	case num == 1:
		c.Objects = append(c.Objects, v)
		return checkText(c.Kind, "objects", v)
	case num == 2:
		c.Group = v
		return checkText(c.Kind, "group", v)
	}
	return nil
}

func (c *Client) setObjectVarint(num protowire.Number, v uint64) {
	switch {
	case c.Kind == KindObjectAck && num == 3:
		c.Version = object.Version(v)
	case c.Kind == KindRegister && num == 3:
		c.Reset = v != 0
	case c.Kind == KindRegister && num == 4:
		c.More = v != 0
	}
}

// Registered confirms new or ended registrations, and has the digest of the whole set.
type Registered struct {
	Group   string
	Objects []string
	Digest  string
}

// RegistrationFailed refuses registrations: either for good, so that both digests exclude them, or for now.
type RegistrationFailed struct {
	Group     string
	Objects   []string
	Code      string
	Transient bool
}
