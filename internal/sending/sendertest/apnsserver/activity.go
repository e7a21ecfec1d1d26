package apnsserver

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Rules for Live Activities: developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications,
// and sending-broadcast-push-notification-requests-to-apns, sending-channel-management-requests-to-apns and
// handling-error-responses-from-apns below developer.apple.com/documentation/usernotifications.
const (
	maxPayload   = 4096
	maxBroadcast = 5120
	maxChannels  = 10_000
	activityKind = "liveactivity"
	activityEnd  = ".push-type.liveactivity"
)

// kind is what a token is for.
type kind uint8

const (
	ordinary kind = iota
	starting      // activities of a type
	running       // one activity
)

// Shown is what a device shows of an activity.
type Shown struct {
	State     string // the content state
	Timestamp int64
	Ended     bool
	Ignored   int // updates that were older than what it shows, or came after the end
}

// broadcast is a broadcast channel.
type broadcast struct {
	keep  bool
	shown Shown
	got   []Message
}

// RegisterStart makes a device on which activities of a type may be started, and returns its token and endpoint address.
func (s *Server) RegisterStart(typ string, b Behaviour) (token string, address json.RawMessage) {
	token, _ = s.register(&device{behaviour: b, left: b.Times, kind: starting, typ: typ})
	address, _ = json.Marshal(map[string]string{"token": token, "type": typ})
	return token, address
}

// RegisterActivity makes a device with a running activity, and returns the activity's token.
func (s *Server) RegisterActivity(b Behaviour) (token string) {
	token, _ = s.register(&device{behaviour: b, left: b.Times, kind: running})
	return token
}

func (s *Server) register(d *device) (token string, address json.RawMessage) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	token = hex.EncodeToString(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[token] = d
	return token, json.RawMessage(`{"token":"` + token + `"}`)
}

// Shows returns what a device shows of its activity.
func (s *Server) Shows(token string) Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.devices[token].shown
}

// Broadcasts returns the ids of all broadcast channels, in order.
func (s *Server) Broadcasts() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.broadcasts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Broadcast returns what devices show that follow a channel, and the messages to it.
func (s *Server) Broadcast(id string) (shown Shown, got []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.broadcasts[id]; b != nil {
		return b.shown, slices.Clone(b.got)
	}
	return shown, nil
}

// activity is the part of a payload that activities read.
type activity struct {
	Timestamp  *int64                     `json:"timestamp"`
	Event      string                     `json:"event"`
	State      map[string]json.RawMessage `json:"content-state"`
	Type       string                     `json:"attributes-type"`
	Attributes map[string]json.RawMessage `json:"attributes"`
	Alert      *struct {
		Title, Body string
	} `json:"alert"`
	Channel string `json:"input-push-channel"`
	Token   *int   `json:"input-push-token"`
	Stale   *int64 `json:"stale-date"`
	Dismiss *int64 `json:"dismissal-date"`
}

func activityOf(payload []byte) (a activity, ok bool) {
	var p struct {
		APS *activity `json:"aps"`
	}
	if json.Unmarshal(payload, &p) != nil || p.APS == nil {
		return a, false
	}
	return *p.APS, true
}

// silently is the answer to messages that Apple accepts and devices drop without a word, so that tests notice them.
func silently(why string) Behaviour { return refuse(http.StatusBadRequest, why) }

// checkActivity returns the reason why Apple would refuse a message to an activity, or a device would drop it.
func (s *Server) checkActivity(m *Message) Behaviour {
	a, ok := activityOf(m.Payload)
	switch {
	case !ok:
		return refuse(http.StatusBadRequest, "PayloadEmpty")
	case m.Priority != "10" && m.Priority != "5" && m.Priority != "1":
		return refuse(http.StatusBadRequest, "BadPriority")
	case a.Timestamp == nil || *a.Timestamp <= 0:
		return silently("MissingTimestamp")
	case *a.Timestamp > s.opts.Now().Unix()+int64(clocksApart.Seconds()):
		return silently("TimestampInTheFuture")
	case a.Event != "start" && a.Event != "update" && a.Event != "end":
		return silently("BadEvent")
	case a.Event != "end" && a.State == nil:
		return silently("MissingContentState")
	case a.Event != "end" && a.Dismiss != nil:
		return silently("DismissalDateBeforeEnd")
	}
	if a.Event == "start" {
		return checkStart(&a)
	}
	if a.Type != "" || a.Attributes != nil || a.Channel != "" || a.Token != nil {
		return silently("AttributesAfterStart")
	}
	return Accepting
}

func checkStart(a *activity) Behaviour {
	switch {
	case a.Type == "":
		return silently("MissingAttributesType")
	case a.Attributes == nil:
		return silently("MissingAttributes")
	case a.Alert == nil || a.Alert.Title == "" && a.Alert.Body == "":
		return silently("MissingAlert")
	case (a.Channel == "") == (a.Token == nil):
		return silently("EitherChannelOrToken")
	}
	return Accepting
}

// suits reports whether a message suits what its device's token is for. s.mu is held.
func (s *Server) suits(m *Message, d *device) Behaviour {
	if (m.PushType == activityKind) != (d.kind != ordinary) {
		return refuse(http.StatusBadRequest, "DeviceTokenNotForTopic")
	}
	if d.kind == ordinary {
		return Accepting
	}
	a, _ := activityOf(m.Payload)
	switch {
	case (a.Event == "start") != (d.kind == starting):
		return silently("EventNotForToken")
	case d.kind == starting && a.Type != d.typ:
		return silently("OtherAttributesType")
	case a.Channel != "" && s.broadcasts[a.Channel] == nil:
		return silently("StartOnNoChannel")
	}
	return Accepting
}

// show has a device show an update. Older ones are ignored, and what comes after the end.
func (w *Shown) show(payload []byte) {
	a, _ := activityOf(payload)
	if a.Timestamp == nil {
		return
	}
	if w.Ended || *a.Timestamp < w.Timestamp {
		w.Ignored++
		return
	}
	w.Timestamp, w.Ended = *a.Timestamp, a.Event == "end"
	if a.State != nil {
		state, _ := json.Marshal(a.State)
		w.State = string(state)
	}
}

// checkBroadcast returns the reason why Apple would refuse a broadcast, and otherwise shows it.
func (s *Server) checkBroadcast(m *Message) Behaviour {
	expiration, badExpiration := strconv.ParseUint(m.Expiration, 10, 63)
	switch {
	case m.method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed")
	case m.path != "/4/broadcasts/apps/"+s.opts.Topic:
		return refuse(http.StatusBadRequest, "TopicMismatch")
	case m.Channel == "":
		return refuse(http.StatusBadRequest, "MissingChannelId")
	case m.PushType == "":
		return refuse(http.StatusBadRequest, "MissingPushType")
	case m.PushType != activityKind:
		return refuse(http.StatusBadRequest, "InvalidPushType")
	case badExpiration != nil:
		return refuse(http.StatusBadRequest, "BadExpirationDate")
	case len(m.Payload) > maxBroadcast:
		return refuse(http.StatusRequestEntityTooLarge, "PayloadTooLarge")
	case m.Topic != "" || m.Collapse != "" || m.ID != "":
		return silently("HeadersOfDevices")
	}
	if b := s.checkActivity(m); b.Status != 0 {
		return b
	}
	if a, _ := activityOf(m.Payload); a.Event == "start" {
		return silently("BroadcastCannotStart")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.broadcasts[m.Channel]
	switch {
	case ch == nil:
		return refuse(http.StatusBadRequest, "ChannelNotRegistered")
	case !ch.keep && expiration != 0:
		return refuse(http.StatusBadRequest, "BadExpirationDate")
	}
	ch.got = append(ch.got, *m)
	ch.shown.show(m.Payload)
	s.accepted++
	return Accepting
}

// manage answers a request about channels.
func (s *Server) manage(m *Message) Behaviour {
	app, rest, _ := strings.Cut(strings.TrimPrefix(m.path, "/1/apps/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case app != s.opts.Topic:
		return refuse(http.StatusBadRequest, "TopicMismatch")
	case s.opts.NoBroadcast:
		return refuse(http.StatusBadRequest, "FeatureNotEnabled")
	case rest == "all-channels" && m.method == http.MethodGet:
		ids := make([]string, 0, len(s.broadcasts))
		for id := range s.broadcasts {
			ids = append(ids, id)
		}
		body, _ := json.Marshal(map[string][]string{"channels": ids})
		return Behaviour{Status: http.StatusOK, Body: string(body)}
	case rest != "channels":
		return refuse(http.StatusNotFound, "BadPath")
	case m.method == http.MethodPost:
		return s.create(m)
	case m.Channel == "":
		return refuse(http.StatusBadRequest, "MissingChannelId")
	}
	ch := s.broadcasts[m.Channel]
	if _, err := base64.StdEncoding.DecodeString(m.Channel); err != nil {
		return refuse(http.StatusBadRequest, "BadChannelId")
	}
	if ch == nil {
		return refuse(http.StatusNotFound, "ChannelNotRegistered")
	}
	switch m.method {
	case http.MethodGet:
		policy := 0
		if ch.keep {
			policy = 1
		}
		return Behaviour{Status: http.StatusOK, Body: `{"message-storage-policy":` + strconv.Itoa(policy) + `,"push-type":"LiveActivity"}`}
	case http.MethodDelete:
		delete(s.broadcasts, m.Channel)
		return Behaviour{Status: http.StatusNoContent}
	}
	return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed")
}

// create makes a channel. s.mu is held.
func (s *Server) create(m *Message) Behaviour {
	var config struct {
		Policy *int   `json:"message-storage-policy"`
		Type   string `json:"push-type"`
	}
	switch err := json.Unmarshal(m.Payload, &config); {
	case err != nil || config.Policy == nil || *config.Policy < 0 || *config.Policy > 1:
		return refuse(http.StatusBadRequest, "BadMessageStoragePolicy")
	case config.Type != "LiveActivity":
		return refuse(http.StatusBadRequest, "InvalidPushType")
	case len(s.broadcasts) >= s.opts.Channels:
		return refuse(http.StatusBadRequest, "CannotCreateChannelConfig")
	}
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	id := base64.StdEncoding.EncodeToString(raw)
	s.broadcasts[id] = &broadcast{keep: *config.Policy == 1}
	return Behaviour{Status: http.StatusCreated, channel: id}
}
