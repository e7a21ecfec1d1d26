package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// A reader reads the value of one JSON field and returns what is wrong with it, or "".
type reader func(value json.RawMessage, into *Client) (problem string)

// readers are the fields of each frame. For frames that are not offered yet, only the form of their fields is checked.
var readers = [...]map[string]reader{
	KindHello: {
		"app":       helloText(func(h *Hello) *string { return &h.App }),
		"token":     helloText(func(h *Hello) *string { return &h.Token }),
		"recipient": helloText(func(h *Hello) *string { return &h.Recipient }),
		"group":     helloText(func(h *Hello) *string { return &h.Group }),
		"device":    helloText(func(h *Hello) *string { return &h.Device }),
		"digest":    helloText(func(h *Hello) *string { return &h.Digest }),
		"held":      readHeld,
		"window":    readWindow,
		"heartbeat": func(v json.RawMessage, c *Client) string { return readDuration(v, &c.Hello.Heartbeat) },
		"observe":   func(v json.RawMessage, c *Client) string { return readBool(v, &c.Hello.Observe) },
	},
	KindAck: {"ids": readIDs},
	KindNack: {
		"ids":   readIDs,
		"after": func(v json.RawMessage, c *Client) string { return readDuration(v, &c.After) },
		"reason": func(v json.RawMessage, c *Client) string {
			s, problem := text(v)
			c.Reason = []byte(s)
			return problem
		},
	},
	KindPing: {"digest": func(v json.RawMessage, c *Client) string {
		s, problem := text(v)
		c.Digest = []byte(s)
		return problem
	}},
	KindRegister:    registerFields,
	KindUnregister:  {"objects": readObjects, "group": readGroup},
	KindObjectAck:   {"object": readObject, "group": readGroup, "version": readVersion},
	KindSubscribe:   {"topics": readPatterns, "queue": readQueue},
	KindUnsubscribe: {"topics": readPatterns, "queue": readQueue},
	KindServe:       {"subjects": readPatterns, "queue": readQueue},
	KindUnserve:     {"subjects": readPatterns, "queue": readQueue},
	KindReply:       replyFields,
}

func helloText(field func(*Hello) *string) reader {
	return func(v json.RawMessage, into *Client) (problem string) {
		*field(into.Hello), problem = text(v)
		return problem
	}
}

func readIDs(v json.RawMessage, into *Client) string {
	ids, problem := texts(v)
	if len(ids) > MaxIDs {
		return fmt.Sprintf("has more than %d entries", MaxIDs)
	}
	for _, id := range ids {
		into.IDs = append(into.IDs, []byte(id))
	}
	return problem
}

func readHeld(v json.RawMessage, into *Client) (problem string) {
	if into.Hello.Held, problem = texts(v); len(into.Hello.Held) > MaxHeld {
		return fmt.Sprintf("has more than %d entries", MaxHeld)
	}
	return problem
}

func readWindow(v json.RawMessage, into *Client) string {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 || n > MaxWindow {
		return fmt.Sprintf("must be a whole number between 1 and %d", MaxWindow)
	}
	into.Hello.Window = n
	return ""
}

// readDuration reads "30s", "7d" and the like, or whole seconds as a number.
func readDuration(v json.RawMessage, into *time.Duration) string {
	s := string(v)
	if strings.HasPrefix(s, `"`) {
		s, _ = text(v)
	} else if _, err := strconv.ParseInt(s, 10, 64); err != nil {
		return "must be a duration like \"30s\" or whole seconds"
	}
	d, err := notification.ParseDuration(s)
	if err != nil {
		return "must be a duration like \"30s\" or whole seconds: " + err.Error()
	}
	*into = d
	return ""
}

func text(v json.RawMessage) (s, problem string) {
	if n := len(v); n >= 2 && v[0] == '"' && bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : n-1]), "" // the frame was checked to be valid JSON in UTF-8
	}
	if json.Unmarshal(v, &s) != nil {
		return "", "must be a string"
	}
	return s, ""
}

func texts(v json.RawMessage) (list []string, problem string) {
	if json.Unmarshal(v, &list) != nil {
		return nil, "must be a list of strings"
	}
	return list, ""
}
