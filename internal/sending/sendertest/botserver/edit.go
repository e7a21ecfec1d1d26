package botserver

import (
	"net/http"
	"time"
)

// edit is editMessageText, or editMessageCaption.
func (s *Server) edit(w http.ResponseWriter, r *http.Request, method string, c *call) {
	chat, ok := c.chatID()
	text, media := c.Text, method == "editMessageCaption"
	if media {
		text = c.Caption
	}
	s.mu.Lock()
	fault := s.strike()
	refused := s.editable(chat, ok, c.MessageID)
	m := s.message(chat, c.MessageID)
	switch {
	case fault == Flood:
		s.flooded++
		s.mu.Unlock()
		answer(w, http.StatusTooManyRequests, "Too Many Requests: retry after 7", `{"retry_after":7}`)
		return
	case refused != "":
		s.mu.Unlock()
		status := http.StatusBadRequest
		if refused[0] == 'F' {
			status = http.StatusForbidden
		}
		answer(w, status, refused, "")
		return
	case media && m.Media == "":
		s.mu.Unlock()
		answer(w, http.StatusBadRequest, "Bad Request: there is no caption in the message to edit", "")
		return
	case !media && m.Media != "":
		s.mu.Unlock()
		answer(w, http.StatusBadRequest, "Bad Request: there is no text in the message to edit", "")
		return
	case !parses(c.ParseMode, text):
		s.mu.Unlock()
		answer(w, http.StatusBadRequest, "Bad Request: can't parse entities", "")
		return
	case m.Text == text && m.Buttons == string(c.Markup):
		s.mu.Unlock()
		answer(w, http.StatusBadRequest, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message", "")
		return
	}
	now := s.opts.Now()
	for len(s.edits) > 0 && now.Sub(s.edits[0]) >= time.Second {
		s.edits = s.edits[1:]
	}
	if s.opts.Rate > 0 && len(s.edits) >= s.opts.Rate {
		s.flooded++
		s.mu.Unlock()
		answer(w, http.StatusTooManyRequests, "Too Many Requests: retry after 1", `{"retry_after":1}`)
		return
	}
	s.edits = append(s.edits, now)
	m.Text, m.Mode, m.Buttons, m.Plain = text, c.ParseMode, string(c.Markup), c.Preview.Disabled
	m.Edits++
	taken := *m
	s.mu.Unlock()
	s.reply(w, r, fault, []*Message{&taken}, false)
}

// editable returns the reason why a message cannot be edited; "": it can.
func (s *Server) editable(chat int64, ok bool, id int64) string {
	switch state := s.states[chat]; {
	case !ok || state == NotFound:
		return string(NotFound)
	case state != Takes && state != Moved:
		return string(state)
	}
	switch m := s.message(chat, id); {
	case m == nil || m.Deleted:
		return "Bad Request: message to edit not found"
	case m.Fixed:
		return "Bad Request: message can't be edited"
	}
	return ""
}

// Delete removes a message, as its reader can.
func (s *Server) Delete(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[id-1].Deleted = true
}

// Fix marks a message as not editable.
func (s *Server) Fix(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[id-1].Fixed = true
}

func (s *Server) message(chat, id int64) *Message {
	for _, m := range s.byChat[chat] {
		if m.ID == id {
			return m
		}
	}
	return nil
}
