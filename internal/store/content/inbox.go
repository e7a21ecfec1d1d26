package content

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// appendInbox appends how inboxes keep a notification.
func appendInbox(b []byte, in *notification.Inbox) []byte {
	b = binary.AppendUvarint(b, uint64(in.Keep/time.Minute)) //nolint:gosec // positive
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
	in = &notification.Inbox{Keep: time.Duration(minutes) * time.Minute} //nolint:gosec // checked
	actions, rest, err := cutPart(b[w:])
	if err != nil || len(actions) == 0 {
		return in, rest, err
	}
	if json.Unmarshal(actions, &in.Actions) != nil || len(in.Actions) == 0 || len(in.Actions) > notification.MaxActions {
		return nil, nil, errDamaged
	}
	return in, rest, nil
}
