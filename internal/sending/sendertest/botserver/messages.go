package botserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
)

// media returns the media that a method sends besides its text.
func (c *call) media(method string) string {
	return map[string]string{
		"sendPhoto": c.Photo, "sendVideo": c.Video, "sendAnimation": c.Animation, "sendAudio": c.Audio, "sendDocument": c.Document, "sendSticker": c.Sticker,
	}[method]
}

// messages returns the messages that a request makes, and the reason why it is not well formed.
func (c *call) messages(method string) (ms []*Message, bad string) {
	whole := Message{Method: method, Text: c.Text, Media: c.media(method), Mode: c.ParseMode, Silent: c.Silent, Thread: c.Thread, Buttons: string(c.Markup), Plain: c.Preview.Disabled}
	switch method {
	case "sendMessage":
		if c.Text == "" {
			return nil, "Bad Request: message text is empty"
		}
		return []*Message{&whole}, whole.fits(4096)
	case "sendMediaGroup":
		return c.album(&whole)
	}
	if whole.Text = c.Caption; whole.Media == "" {
		return nil, "Bad Request: there is no file in the request"
	}
	return []*Message{&whole}, whole.fits(1024)
}

// album is a media group, of which each part is a message.
func (c *call) album(whole *Message) (ms []*Message, bad string) {
	if n := len(c.Album); n < 2 || n > 10 {
		return nil, "Bad Request: group send failed"
	}
	for _, part := range c.Album {
		alone := part.Type == "audio" || part.Type == "document"
		if alone && part.Type != c.Album[0].Type || !alone && part.Type != "photo" && part.Type != "video" || part.Media == "" {
			return nil, "Bad Request: can't use the media of the specified type in the album"
		}
		m := *whole
		m.Text, m.Mode, m.Media = part.Caption, part.ParseMode, part.Type+" "+part.Media
		if bad := m.fits(1024); bad != "" {
			return nil, bad
		}
		ms = append(ms, &m)
	}
	return ms, ""
}

// fits returns why a text is refused. Entities are longer here than in Telegram's own count.
func (m *Message) fits(most int) string {
	switch {
	case len(utf16.Encode([]rune(m.Text))) > 2*most:
		return "Bad Request: message is too long"
	case !parses(m.Mode, m.Text):
		return "Bad Request: can't parse entities"
	}
	return ""
}

// send handles sendMessage, sendPhoto and the like.
func (s *Server) send(w http.ResponseWriter, r *http.Request, method string, c *call) {
	chat, ok := c.chatID()
	if !ok {
		answer(w, http.StatusBadRequest, string(NotFound), "")
		return
	}
	ms, bad := c.messages(method)
	if bad != "" {
		answer(w, http.StatusBadRequest, bad, "")
		return
	}
	s.mu.Lock()
	fault := s.strike()
	switch fault {
	case Flood:
		s.flooded++
		s.mu.Unlock()
		answer(w, http.StatusTooManyRequests, "Too Many Requests: retry after 7", `{"retry_after":7}`)
		return
	case Refuse:
		s.mu.Unlock()
		answer(w, http.StatusBadRequest, "Bad Request: message text is empty", "")
		return
	case Redirect:
		s.mu.Unlock()
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(http.StatusFound)
		return
	}
	if s.refuses(w, chat, len(ms)) {
		s.mu.Unlock()
		return
	}
	for _, m := range ms {
		m.ID, m.Chat, m.At = int64(len(s.messages)+1), chat, s.opts.Now()
		s.messages = append(s.messages, m)
		s.byChat[chat] = append(s.byChat[chat], m)
	}
	s.mu.Unlock()
	s.reply(w, r, fault, ms, method == "sendMediaGroup")
}

// strike returns the fault that this request meets.
func (s *Server) strike() Fault {
	s.requests++
	if s.faults == 0 {
		return None
	}
	if s.faults > 0 {
		s.faults--
	}
	return s.fault
}

// refuses answers n messages that their chat does not accept or that exceed a rate limit, and reports whether it did.
func (s *Server) refuses(w http.ResponseWriter, chat int64, n int) bool {
	switch state := s.states[chat]; state {
	case Takes:
	case Moved:
		answer(w, http.StatusBadRequest, "Bad Request: group chat was upgraded to a supergroup chat", fmt.Sprintf(`{"migrate_to_chat_id":%d}`, s.moves[chat]))
		return true
	case NotFound:
		answer(w, http.StatusBadRequest, string(state), "")
		return true
	default:
		answer(w, http.StatusForbidden, string(state), "")
		return true
	}
	now := s.opts.Now()
	for len(s.window) > 0 && now.Sub(s.window[0]) >= time.Second {
		s.window = s.window[1:]
	}
	last := s.byChat[chat]
	var rest time.Duration // the chat takes the next message so long after the last album or message
	for i := len(last) - 1; i >= 0 && last[i].At.Equal(last[len(last)-1].At); i-- {
		rest += s.opts.Every
	}
	tooSoon := rest > 0 && now.Sub(last[len(last)-1].At) < rest
	if tooSoon || s.opts.Rate > 0 && len(s.window)+n > s.opts.Rate {
		s.flooded++
		answer(w, http.StatusTooManyRequests, fmt.Sprintf("Too Many Requests: retry after %d", s.opts.Retry), fmt.Sprintf(`{"retry_after":%d}`, s.opts.Retry))
		return true
	}
	for range n {
		s.window = append(s.window, now)
	}
	return false
}

// reply answers accepted messages: in a list if they are an album.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, fault Fault, ms []*Message, album bool) {
	switch fault {
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html><head><title>502 Bad Gateway</title></head></html>")
	case Garbage:
		_, _ = io.WriteString(w, "<!doctype html>")
	case Failing:
		answer(w, http.StatusInternalServerError, "Internal Server Error", "")
	case Drop:
		panic(http.ErrAbortHandler)
	case Part:
		answer(w, http.StatusBadRequest, `Bad Request: failed to send message #1 with the error message "Too Many Requests: retry after 8"`, "")
	case Hang:
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
	default:
		said := make([]string, len(ms))
		for i, m := range ms {
			said[i] = fmt.Sprintf(`{"message_id":%d,"date":%d,"chat":{"id":%d,"type":"private"},"text":"x"}`, m.ID, m.At.Unix(), m.Chat)
		}
		if album {
			said[0] = "[" + strings.Join(said, ",") + "]"
		}
		result(w, said[0])
	}
}

// parses reports whether a text is well formed, as far as tests need: all special characters are escaped.
func parses(mode, text string) bool {
	switch mode {
	case "HTML":
		plain := text
		for _, tag := range []string{"<b>", "</b>", "<i>", "</i>", "<a ", "</a>"} {
			plain = strings.ReplaceAll(plain, tag, "")
		}
		return !strings.Contains(plain, "<")
	case "Markdown":
		outside := true
		for i := 0; i < len(text); i++ {
			switch {
			case text[i] == '\\' && outside:
				i++
			case strings.IndexByte("*_`", text[i]) >= 0:
				outside = !outside
			}
		}
		return outside
	case "MarkdownV2":
		for i := 0; i < len(text); i++ {
			if text[i] == '\\' {
				i++
			} else if strings.IndexByte("_[]()~`>#+-=|{}.!", text[i]) >= 0 {
				return false
			}
		}
	}
	return true
}

// delete is deleteMessages.
func (s *Server) delete(w http.ResponseWriter, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chat, ok := c.chatID()
	switch state := s.states[chat]; {
	case s.strike() == Flood:
		s.flooded++
		answer(w, http.StatusTooManyRequests, "Too Many Requests: retry after 7", `{"retry_after":7}`)
		return
	case !ok || state == NotFound:
		answer(w, http.StatusBadRequest, string(NotFound), "")
		return
	case state != Takes && state != Moved:
		answer(w, http.StatusForbidden, string(state), "")
		return
	case len(c.MessageIDs) == 0 || len(c.MessageIDs) > 100:
		answer(w, http.StatusBadRequest, "Bad Request: from 1 to 100 message identifiers must be specified", "")
		return
	}
	for _, m := range s.byChat[chat] {
		for _, id := range c.MessageIDs {
			if m.ID == id && s.opts.Now().Sub(m.At) < s.opts.Delete {
				m.Deleted = true
			}
		}
	}
	result(w, "true")
}

// poll is getUpdates.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, c *call) {
	deadline := time.NewTimer(time.Duration(c.Timeout) * time.Second)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		for len(s.updates) > 0 && s.firstUpd < c.Offset {
			s.updates = s.updates[1:]
			s.firstUpd++
		}
		list := append([]json.RawMessage{}, s.updates...)
		news := s.news
		s.mu.Unlock()
		if len(list) > 0 {
			b, _ := json.Marshal(list) // our own raw JSON always encodes
			result(w, string(b))
			return
		}
		select {
		case <-news:
		case <-deadline.C:
			result(w, "[]")
			return
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
}
