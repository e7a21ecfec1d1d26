package session

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// nameless is the acknowledging device if the session has no device.
const nameless = "~"

// toBeFound is a placeholder for the online devices, which settleLater finds after the session is unlocked.
var toBeFound = []string{}

// settleLater passes acknowledgements of one recipient to the store. No session may be locked. The registry and the peers know the
// recipient's other online devices, so no other node is queried.
func (h *Hub) settleLater(acks []*mailbox.Settle) {
	i := slices.IndexFunc(acks, func(st *mailbox.Settle) bool { return st.Online != nil })
	if i >= 0 {
		online := append(h.online(acks[i].App, acks[i].Recipient), h.peers.Online(acks[i].App, acks[i].Recipient)...)
		for _, st := range acks[i:] {
			if st.Online != nil {
				st.Online = online
			}
		}
	}
	h.cfg.Store.SettleLater(acks)
}

// ack converts an acknowledgement to settles for the store. The client gets no answer: the store writes them with its next commit. An id
// that is not in flight here (the client reconnected, or received the notification otherwise) is settled by its id.
func (s *Session) ack(ids [][]byte) []*mailbox.Settle {
	if s.peek && !s.ways.is(watching) {
		s.badLocked(&frame.Error{Code: "forbidden", Message: "this session only observes; it cannot acknowledge"})
		return nil
	}
	now := s.hub.cfg.Now()
	block := make([]mailbox.Settle, len(ids)) // one allocation however many ids
	batch := make([]*mailbox.Settle, len(ids))
	for i, id := range ids {
		st := &block[i]
		*st = mailbox.Settle{App: s.app, Recipient: s.recipient, As: notification.Acked, Device: s.device, At: now}
		if s.device == "" {
			st.Device = nameless
		}
		if k := s.inFlight(id); k >= 0 {
			f := &s.win.flight[k]
			st.ID, st.Pos, st.Attempts = f.id, f.pos, uint32(f.attempt)
			if f.all {
				st.Device, st.Online = s.name(), toBeFound
			}
			st.Over = mailbox.OverOf(s.t.Name(), s.device)
			st.DeliveredAt = now                                                                      // the store keeps an earlier time if it has one
			s.hub.counts.took.acked.Observe(float64(max(int32(s.hub.millis(now)-f.since), 0)) / 1000) // of at most 24 days
			s.takeFlight(k, true)
		} else {
			st.ID, st.Device, st.Online = string(id), s.name(), toBeFound
		}
		batch[i] = st
	}
	s.hub.counts.acked.Add(uint64(len(ids)))
	return batch
}

// reply settles a notification with the client's answer.
func (s *Session) reply(r *frame.Reply) []*mailbox.Settle {
	if len(r.Data) > notification.MaxReplyBytes {
		s.badLocked(&frame.Error{
			Code: frame.CodeBadField, Field: "data",
			Message: fmt.Sprintf("reply: data has %d bytes; an answer to a notification has at most %d", len(r.Data), notification.MaxReplyBytes),
		})
		return nil
	}
	batch := s.ack([][]byte{r.ID})
	for _, st := range batch {
		st.As, st.Reply = notification.Replied, &notification.Reply{Status: r.Status, ContentType: r.ContentType, Data: bytes.Clone(r.Data)}
		s.chose(st.ID, st.Reply)
	}
	return batch
}

// nack schedules redelivery after the given time, or by the usual backoff if none is given. Until then the notification is out of the
// window, so that a notification which a client cannot accept blocks no others. The store counts nacks with a reason, and ends
// notifications with too many. Nacks without a reason only postpone, so that a handler that fails for an hour loses nothing.
func (s *Session) nack(ids [][]byte, after time.Duration, reason []byte) (batch []*mailbox.Settle) {
	now := s.hub.instant()
	why := string(reason)
	var marks []mailbox.Mark
	said := &why
	if why == "" {
		said = nil
	}
	for _, id := range ids {
		k := s.inFlight(id)
		if k < 0 {
			continue
		}
		f := &s.win.flight[k]
		f.due = now + s.hub.backoff(uint32(f.attempt))
		if after > 0 {
			f.due = now + ticks(min(after, notification.MaxTTL))
		}
		if f.step &^= again; f.due < s.wakeAt {
			s.arm(f.due)
		}
		if f.is(off) {
			continue // a second nack of the same notification
		}
		s.win.putOff(f)
		marks = append(marks, mailbox.Mark{
			App: s.app, Recipient: s.recipient, ID: f.id, Pos: f.pos, DeliveredAt: s.hub.cfg.Now(),
			Device: s.device, Over: mailbox.OverOf(s.t.Name(), s.device), What: mailbox.Nacked, Reason: said,
		})
		if why == "" {
			continue
		}
		batch = append(batch, &mailbox.Settle{
			App: s.app, Recipient: s.recipient, ID: f.id, Pos: f.pos, As: notification.Failed, Nack: true, Reason: why,
			Device: s.device, Attempts: uint32(f.attempt), At: s.hub.cfg.Now(),
		})
	}
	s.hub.counts.nacked.Add(uint64(len(ids)))
	if len(marks) > 0 {
		s.hub.cfg.Store.Mark(marks)
	}
	s.catchUpLocked()
	return batch
}
