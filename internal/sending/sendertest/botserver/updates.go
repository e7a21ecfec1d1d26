package botserver

import (
	"encoding/json"
	"fmt"
)

// Say makes a user named A write to the bot, which causes an update of the kind message.
func (s *Server) Say(chat int64, language, text string) {
	s.update(fmt.Sprintf(`"message":{"message_id":1,"date":1,"chat":{"id":%d,"type":"private","first_name":"A"},"from":{"id":%d,"is_bot":false,"first_name":"A","language_code":%q},"text":%q}`,
		chat, chat, language, text))
}

// SayInTopic makes a user write in a topic of a forum.
func (s *Server) SayInTopic(chat, thread int64, text string) {
	s.update(fmt.Sprintf(`"message":{"message_id":1,"date":1,"chat":{"id":%d,"type":"supergroup","is_forum":true},"message_thread_id":%d,"is_topic_message":true,"from":{"id":5,"first_name":"A"},"text":%q}`,
		chat, thread, text))
}

// Press makes a user press the button with a text below a message, which causes an update of the kind callback_query, as a client that is
// not Telegram's own may do with other data. It returns the query's id.
func (s *Server) Press(message int64, text string, forge func(data string) string) (query string) {
	s.mu.Lock()
	m := s.messages[message-1]
	chat, markup := m.Chat, m.Buttons
	s.mu.Unlock()
	var keyboard struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	_ = json.Unmarshal([]byte(markup), &keyboard) // without buttons nothing is found below
	for _, row := range keyboard.Rows {
		for _, b := range row {
			if b.Text != text {
				continue
			}
			if len(b.Data) > 64 {
				panic("Telegram carries 64 bytes: " + b.Data)
			}
			if forge != nil {
				b.Data = forge(b.Data)
			}
			query = fmt.Sprintf("query-%d-%s", message, text)
			s.update(fmt.Sprintf(`"callback_query":{"id":%q,"from":{"id":%d,"is_bot":false,"first_name":"A"},"message":{"message_id":%d,"date":1,"chat":{"id":%d,"type":"private"},"reply_markup":%s},"chat_instance":"1","data":%q}`,
				query, chat, message, chat, markup, b.Data))
		}
	}
	return query
}

// Answered returns the ids of the callback queries that the bot has answered.
func (s *Server) Answered() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.answered...)
}

// Member sends an update that the bot's status in a chat has changed: member, kicked, left.
func (s *Server) Member(chat int64, status string) {
	s.update(fmt.Sprintf(`"my_chat_member":{"chat":{"id":%d,"type":"private"},"from":{"id":%d},"date":1,"new_chat_member":{"status":%q}}`, chat, chat, status))
}

func (s *Server) update(inner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.firstUpd + int64(len(s.updates))
	s.updates = append(s.updates, json.RawMessage(fmt.Sprintf(`{"update_id":%d,%s}`, id, inner)))
	close(s.news)
	s.news = make(chan struct{})
}

// Waiting counts unconfirmed updates.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}
