package content

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// appendInbox appends how inboxes keep a notification.
func appendInbox(b []byte, in *notification.Inbox) []byte {
	b = binary.AppendUvarint(b, uint64(in.Keep/time.Minute)) // positive
	if len(in.Actions) == 0 {
		return append(b, 0)
	}
	actions, _ := json.Marshal(in.Actions) // texts only
	return append(binary.AppendUvarint(b, uint64(len(actions))), actions...)
}

// cutInbox is the inverse of appendInbox.
func cutInbox(b []byte) (in *notification.Inbox, rest []byte, err error) {
	minutes, w := binary.Uvarint(b)
	if w <= 0 || minutes == 0 || minutes > uint64(notification.MaxKeep/time.Minute) {
		return nil, nil, errDamaged
	}
	in = &notification.Inbox{Keep: time.Duration(minutes) * time.Minute}
	actions, rest, err := cutPart(b[w:])
	if err != nil || len(actions) == 0 {
		return in, rest, err
	}
	if json.Unmarshal(actions, &in.Actions) != nil || len(in.Actions) == 0 || len(in.Actions) > notification.MaxActions {
		return nil, nil, errDamaged
	}
	return in, rest, nil
}

// Kept returns the stored form of c for inboxes, which is shorter: what push channels get is left out, and how long it is kept, which an inbox
// says by item. body is what Encode made of c.
func Kept(c *notification.Content, body []byte) []byte {
	if len(c.Inbox.Actions) > 0 || len(c.Push) > 0 {
		kept := *c
		kept.Push = nil
		if len(c.Inbox.Actions) == 0 {
			kept.Inbox = nil
		}
		body, _ = Encode(&kept)
		return body
	}
	var room [2 * binary.MaxVarintLen64]byte
	rest := 1 + len(appendInbox(room[:0], c.Inbox)) // the empty content of push channels, too
	kept := append(make([]byte, 0, len(body)-rest), version)
	return append(kept, body[1:len(body)-rest]...)
}
