package botserver

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// upload is sendPhoto and the like with a file in the body. The file's id names its kind and its content.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, method string) {
	kind := strings.ToLower(strings.TrimPrefix(method, "send"))
	if err := r.ParseMultipartForm(1 << 20); err != nil { // of a test
		answer(w, http.StatusBadRequest, "Bad Request: can't parse the request", "")
		return
	}
	file, head, err := r.FormFile(kind)
	if err != nil {
		answer(w, http.StatusBadRequest, "Bad Request: there is no file in the request", "")
		return
	}
	defer file.Close()
	if most := map[bool]int64{true: 10 << 20, false: 50 << 20}[kind == "photo"]; head.Size > most {
		answer(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large", "")
		return
	}
	sum := sha256.New()
	_, _ = io.Copy(sum, file) // of memory or a file of this process
	chat, err := strconv.ParseInt(r.FormValue("chat_id"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.refuses(w, chat, 1) {
		return
	}
	id := fmt.Sprintf("%s-%s-%x", kind, head.Filename, sum.Sum(nil)[:8])
	m := &Message{ID: int64(len(s.messages) + 1), Chat: chat, Method: method, Media: id, Silent: r.FormValue("disable_notification") == "true", At: s.opts.Now(), Uploaded: true}
	s.messages = append(s.messages, m)
	s.byChat[chat] = append(s.byChat[chat], m)
	said := fmt.Sprintf(`{"file_id":%q,"file_unique_id":"u"}`, id)
	if kind == "photo" {
		said = `[{"file_id":"small","file_unique_id":"s","width":90,"height":90},` + said + `]`
	}
	result(w, fmt.Sprintf(`{"message_id":%d,"date":%d,"chat":{"id":%d,"type":"private"},%q:%s}`, m.ID, m.At.Unix(), m.Chat, kind, said))
}
