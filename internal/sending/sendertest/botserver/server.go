// Package botserver is a Telegram Bot API server for tests. It enforces the limits of a bot and of a chat and answers 429 with retry_after;
// its chats may have blocked the bot, moved, or never existed. It edits messages, deletes them for 48 hours, delivers updates, and fails as
// the real server does.
package botserver

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// State says what a chat does with messages. The zero value accepts them.
type State string

// States of chats.
const (
	Takes       State = ""
	Blocked     State = "Forbidden: bot was blocked by the user"
	Deactivated State = "Forbidden: user is deactivated"
	Kicked      State = "Forbidden: bot was kicked from the group chat"
	NotFound    State = "Bad Request: chat not found"
	Moved       State = "moved" // see Move
)

// Fault is what the server does instead of an answer.
type Fault string

// Faults.
const (
	None     Fault = ""
	HTML     Fault = "html"     // accepts the message and answers 502 with a web page
	Drop     Fault = "drop"     // accepts the message and breaks the connection
	Hang     Fault = "hang"     // accepts the message and never answers
	Failing  Fault = "failing"  // 500 as JSON; whether the message was sent stays unknown
	Garbage  Fault = "garbage"  // accepts the message and answers something that is not JSON
	Flood    Fault = "flood"    // 429 with retry_after 7
	Refuse   Fault = "refuse"   // 400 for the text
	Redirect Fault = "redirect" // 302
	Part     Fault = "part"     // accepts all messages but the first of an album, and answers 400
)

// Options of a server.
type Options struct {
	Token  string
	Rate   int              // messages a second of the bot; 0: no limit (Telegram: 30)
	Every  time.Duration    // least time between messages to a chat; 0: no limit (Telegram: 1 s)
	Retry  int              // retry_after of a 429, in seconds; 0: 1
	Now    func() time.Time // nil: time.Now
	Delete time.Duration    // time for which messages can be deleted; 0: 48 h
}

// Message is a message that a chat received.
type Message struct {
	ID      int64
	Chat    int64
	Method  string
	Text    string // or caption
	Media   string // a photo, video or the like; of a part of an album, its type before it
	Thread  int64
	Buttons string // reply_markup, as it came
	Plain   bool   // no preview of links
	Mode    string
	Silent  bool
	At      time.Time
	Deleted bool
	Edits   int  // that changed something
	Fixed   bool // see Fix
	// Uploaded: the request had the file in its body.
	Uploaded bool
}

// Server is a running Bot API server.
type Server struct {
	URL    string
	opts   Options
	http   *httptest.Server
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	states   map[int64]State
	moves    map[int64]int64
	fault    Fault
	faults   int // number of further requests that end in the fault; -1: all
	messages []*Message
	byChat   map[int64][]*Message
	window   []time.Time // of the last second's messages
	edits    []time.Time // and of its edits
	flooded  int         // 429 given
	requests int
	answered []string // ids of callback queries
	updates  []json.RawMessage
	firstUpd int64
	news     chan struct{}
}

// Start starts a server; the caller closes it.
func Start(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Delete == 0 {
		o.Delete = 48 * time.Hour
	}
	if o.Retry == 0 {
		o.Retry = 1
	}
	s := &Server{
		opts: o, closed: make(chan struct{}), states: map[int64]State{}, moves: map[int64]int64{}, byChat: map[int64][]*Message{},
		firstUpd: 1, news: make(chan struct{}),
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Close ends hanging requests and stops the server.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closed) })
	s.http.Close()
}

// Put puts a chat into a state.
func (s *Server) Put(chat int64, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[chat] = state
}

// Move turns a group into a supergroup with another id.
func (s *Server) Move(from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[from], s.moves[from] = Moved, to
}

// Break makes the next n sends end in a fault; n < 0: all.
func (s *Server) Break(f Fault, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.faults = f, n
}

// Messages returns the messages that chats received, in order.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Message, len(s.messages))
	for i, m := range s.messages {
		out[i] = *m
	}
	return out
}

// Flooded counts the 429 given.
func (s *Server) Flooded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flooded
}

type call struct {
	ChatID    json.RawMessage `json:"chat_id"`
	MessageID int64           `json:"message_id"`
	Text      string          `json:"text"`
	Caption   string          `json:"caption"`
	Photo     string          `json:"photo"`
	Video     string          `json:"video"`
	Animation string          `json:"animation"`
	Audio     string          `json:"audio"`
	Document  string          `json:"document"`
	Sticker   string          `json:"sticker"`
	Album     []struct {
		Type      string `json:"type"`
		Media     string `json:"media"`
		Caption   string `json:"caption"`
		ParseMode string `json:"parse_mode"`
	} `json:"media"`
	Thread  int64           `json:"message_thread_id"`
	Markup  json.RawMessage `json:"reply_markup"`
	Preview struct {
		Disabled bool `json:"is_disabled"`
	} `json:"link_preview_options"`
	ParseMode  string  `json:"parse_mode"`
	Silent     bool    `json:"disable_notification"`
	CallbackID string  `json:"callback_query_id"`
	MessageIDs []int64 `json:"message_ids"`
	Offset     int64   `json:"offset"`
	Timeout    int     `json:"timeout"`
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+s.opts.Token+"/")
	if !ok {
		answer(w, http.StatusUnauthorized, "Unauthorized", "")
		return
	}
	var c call
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" {
		s.upload(w, r, method)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if len(body) > 0 && json.Unmarshal(body, &c) != nil {
		answer(w, http.StatusBadRequest, "Bad Request: can't parse the request", "")
		return
	}
	switch method {
	case "getMe":
		result(w, `{"id":42,"is_bot":true,"first_name":"Test","username":"test_bot"}`)
	case "sendMessage", "sendPhoto", "sendVideo", "sendAnimation", "sendAudio", "sendDocument", "sendSticker", "sendMediaGroup":
		s.send(w, r, method, &c)
	case "editMessageText", "editMessageCaption":
		s.edit(w, r, method, &c)
	case "deleteMessages":
		s.delete(w, &c)
	case "answerCallbackQuery":
		s.mu.Lock()
		s.answered = append(s.answered, c.CallbackID)
		s.mu.Unlock()
		result(w, "true")
	case "getUpdates":
		s.poll(w, r, &c)
	default:
		answer(w, http.StatusNotFound, "Not Found", "")
	}
}

func result(w http.ResponseWriter, v string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true,"result":`+v+`}`)
}

func answer(w http.ResponseWriter, status int, description, parameters string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if parameters != "" {
		parameters = `,"parameters":` + parameters
	}
	fmt.Fprintf(w, `{"ok":false,"error_code":%d,"description":%q%s}`, status, description, parameters)
}

// chatID reads a chat's number, plain or in quotes.
func (c *call) chatID() (int64, bool) {
	n, err := strconv.ParseInt(strings.Trim(string(c.ChatID), `"`), 10, 64)
	return n, err == nil
}
