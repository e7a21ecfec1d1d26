package mqttgate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

// Names with a meaning of their own. No topic of the app has one of their first levels.
const (
	inboxName   = "inbox"         // the mailbox
	recallName  = "inbox/recall"  // ids of notifications to remove
	countsName  = "inbox/counts"  // how much in the inbox is unseen and unread
	requestName = "inbox/request" // requests to this client by name
	objectLevel = "o"
	toLevel     = "to"
	askLevel    = "r"
	replyLevel  = "reply" // answers to this client's requests, and from it to others; private to its connection
	sysLevel    = "$SYS"
	gapName     = "$SYS/gap" // how many messages of topics this client has missed
	shareLevel  = "$share"
)

// emptyLevel is how an empty level of a name is written in a topic of the app: the escape of a byte that no MQTT string has.
const emptyLevel = "%00"

// reserved reports whether the first level of a name has a meaning of its own.
func reserved(first string) bool {
	switch first {
	case inboxName, objectLevel, toLevel, askLevel, replyLevel:
		return true
	}
	return strings.HasPrefix(first, "$")
}

// toTopic returns the topic of the app that an MQTT name stands for. The caller checks it with topic.CheckName.
func toTopic(name string) string {
	if plainLevels(name) {
		return strings.ReplaceAll(name, "/", ".")
	}
	levels := strings.Split(name, "/")
	for i, l := range levels {
		levels[i] = encodeLevel(l)
	}
	return strings.Join(levels, ".")
}

// plainLevels reports whether a name has no empty level and no byte that needs an escape in a topic.
func plainLevels(name string) bool {
	before := byte('/')
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '/' && before == '/':
			return false
		case c != '/' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' && c != ':':
			return false
		}
		before = c
	}
	return before != '/'
}

func encodeLevel(l string) string {
	if l == "" {
		return emptyLevel
	}
	return topic.EncodeToken(l)
}

// fromTopic returns the MQTT name of a topic of the app; empty: no MQTT client can have it, since the name means something else there.
func fromTopic(name string) string {
	first, _, _ := strings.Cut(name, ".")
	if reserved(topic.DecodeToken(first)) {
		return ""
	}
	return decodeName(name)
}

// decodeName writes the tokens of a topic or subject as the levels of an MQTT name; empty: it has bytes that no such name has.
func decodeName(name string) string {
	if !strings.Contains(name, "%") {
		return strings.ReplaceAll(name, ".", "/")
	}
	levels := strings.Split(name, ".")
	for i, l := range levels {
		if l == emptyLevel {
			levels[i] = ""
		} else if levels[i] = topic.DecodeToken(l); strings.ContainsAny(levels[i], "/+#\x00") || !utf8.ValidString(levels[i]) {
			return ""
		}
	}
	return strings.Join(levels, "/")
}

// toPatterns returns the patterns of topics that an MQTT filter stands for: a last # matches the level above too, which > does not.
// ok is false if it is no valid filter.
func toPatterns(filter string) (patterns []string, ok bool) {
	levels := strings.Split(filter, "/")
	last := len(levels) - 1
	for i, l := range levels {
		switch {
		case l == "+":
			levels[i] = "*"
		case l == "#" && i == last:
			levels[i] = ">"
		case strings.ContainsAny(l, "+#"):
			return nil, false
		default:
			levels[i] = encodeLevel(l)
		}
	}
	pattern := strings.Join(levels, ".")
	if levels[last] != ">" || last == 0 {
		return []string{pattern}, true
	}
	return []string{strings.Join(levels[:last], "."), pattern}, true
}

// target is what a filter or a name is about.
type target uint8

const (
	toNothing target = iota // nothing that can be used this way
	toInbox
	toRecalls
	toRequests // to this client
	toObject
	toMailbox // of a recipient
	toWorkers // requests by subject
	toReplies
	toFigures
	toGaps
	toCounts
	toTopics
)

// targetOf returns what a name or filter is about, and its levels after the first.
func targetOf(name string) (t target, rest string) {
	first, rest, more := strings.Cut(name, "/")
	switch {
	case name == inboxName:
		return toInbox, ""
	case name == recallName:
		return toRecalls, ""
	case name == countsName:
		return toCounts, ""
	case name == requestName:
		return toRequests, ""
	case name == gapName:
		return toGaps, ""
	case first == sysLevel && more:
		return toFigures, rest
	case first == objectLevel && more:
		return toObject, rest
	case first == toLevel && more:
		return toMailbox, rest
	case first == askLevel && more:
		return toWorkers, rest
	case first == replyLevel && more:
		return toReplies, rest
	case reserved(first):
		return toNothing, ""
	}
	return toTopics, name
}

// cutShare takes a shared subscription apart. ok is false if it is not well-formed (section 4.8.2).
func cutShare(filter string) (queue, inner string, ok bool) {
	first, rest, _ := strings.Cut(filter, "/")
	if first != shareLevel {
		return "", filter, true
	}
	queue, inner, _ = strings.Cut(rest, "/")
	if inner == "" {
		return "", "", false
	}
	return queue, inner, notification.CheckName("queue", queue) == nil
}

// objectOf returns the group and name of an object's topic.
func objectOf(rest string) (group, name string, ok bool) {
	group, name, _ = strings.Cut(rest, "/")
	return group, name, notification.CheckName("group", group) == nil && notification.CheckName("object", name) == nil
}

// whoOf returns the app and recipient of a user name: app/recipient, or the recipient of the only app.
func whoOf(user string) (app, recipient string) {
	app, recipient, both := strings.Cut(user, "/")
	if !both {
		return "", app
	}
	return app, recipient
}

// deviceOf returns the device of a client id: itself, or a name made from it if it is not a device's.
func deviceOf(clientID string) string {
	if clientID == "" || notification.CheckName("device", clientID) == nil {
		return clientID
	}
	const readable = 64
	name := strings.Map(func(c rune) rune {
		if c < 0x80 && notification.CheckPart("", string(c)) == nil {
			return c
		}
		return '-'
	}, clientID[:min(len(clientID), readable)])
	sum := sha256.Sum256([]byte(clientID))
	return strings.Trim(name, ".") + ":" + hex.EncodeToString(sum[:8])
}
