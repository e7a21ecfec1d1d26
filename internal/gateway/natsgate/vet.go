package natsgate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
)

// vet forwards a client's operations. It writes each one again from the parsed form, so that the server reads the same. It changes
// operations that the client has no right to, so that the server refuses them.
type vet struct {
	in         *bufio.Reader
	out        *bufio.Writer
	prefix     string // of the app's subjects
	who        *who
	refused    string
	maxPayload int
	inbox      string // prefix of the connection's own inboxes
	subs       *subscriptions
	publishes  func(key string, n int) (wait time.Duration) // nil: no limit
	count      *atomic.Uint64
}

// Reasons why an operation is refused. The letter is the second token of the substitute subject; back sends the matching text to the
// client.
const (
	byRights = "r"
	bySubs   = "s"
	bySize   = "m"
	byRate   = "p"
)

// reasons are the texts that follow the subject in the client's error.
var reasons = map[string]string{
	byRights: "",
	bySubs: fmt.Sprintf(": a connection may have %d topics, %d subjects that it serves and %d other subscriptions",
		frame.MaxPatterns, frame.MaxPatterns, maxOthers),
	bySize: fmt.Sprintf(": this is no name of a topic, or its message has more than %d bytes, or more than %d of headers", topic.MaxData, topic.MaxHeader),
	byRate: ": limit_publish allows this key no more messages now",
}

// prefix returns the beginning of an app's subjects.
func prefix(app string) string { return "godwit." + topic.EncodeToken(app) + "." }

// Errors after which a connection ends.
var (
	errWrong = errors.New("not the NATS protocol") // no NATS client sends this
	errLarge = errors.New("message is larger than the greeting allows")
)

// beyondAll is a message size that every server refuses with NATS's own error for messages that are too large.
const beyondAll = 999_999_999

// run forwards operations until the connection fails, which is an error, or until the client sends an operation that is invalid or too
// large. Then it sends the server an operation that makes the server answer with an error and close.
func (v *vet) run() error {
	for {
		if err := v.operation(); err != nil {
			switch { // a failed write needs no handling: the connection ends
			case errors.Is(err, errWrong):
				_, _ = v.out.WriteString("WRONG\r\n")
			case errors.Is(err, errLarge):
				_, _ = fmt.Fprintf(v.out, "PUB %s.%s %d\r\n", v.refused, bySize, beyondAll)
			default:
				return err
			}
			return v.out.Flush()
		}
		if v.in.Buffered() == 0 {
			if err := v.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// operation hands on one operation.
func (v *vet) operation() error {
	line, err := v.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			return errWrong
		}
		return err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.ContainsAny(line, "\r\x00") {
		return errWrong
	}
	fields := strings.FieldsFunc(string(line), func(c rune) bool { return c == ' ' || c == '\t' })
	if len(fields) == 0 {
		return errWrong
	}
	verb, args := strings.ToUpper(fields[0]), fields[1:]
	switch {
	case (verb == "PING" || verb == "PONG") && len(args) == 0:
		return v.send(verb, args)
	case verb == "UNSUB" && (len(args) == 1 || len(args) == 2):
		if !v.subs.remove(args) {
			return errWrong
		}
		return v.send(verb, args)
	case verb == "SUB" && (len(args) == 2 || len(args) == 3):
		args[0] = v.subscribe(args[0], args[len(args)-1])
		return v.send(verb, args)
	case verb == "PUB" && (len(args) == 2 || len(args) == 3):
		return v.publish(verb, args, 1)
	case verb == "HPUB" && (len(args) == 3 || len(args) == 4):
		return v.publish(verb, args, 2)
	}
	return errWrong
}

// publish forwards a message. The last arguments are sizes; the last of these is the size of headers and data together.
func (v *vet) publish(verb string, args []string, numbers int) error {
	names := len(args) - numbers
	var sizes [2]int
	for i := names; i < len(args); i++ {
		n, err := strconv.ParseUint(args[i], 10, 31)
		if err != nil {
			return errWrong
		}
		if n > uint64(v.maxPayload) {
			return errLarge
		}
		sizes[i-names] = int(n)
		args[i] = strconv.FormatUint(n, 10)
	}
	size, header := sizes[numbers-1], 0
	if numbers == 2 {
		header = sizes[0]
	}
	reply := ""
	if names == 2 {
		reply = args[1]
	}
	if why, ok := v.mayPublish(args[0], reply, size-header, header); !ok {
		args[0] = v.refuse(args[0], why)
	} else if own, ok := strings.CutPrefix(reply, inboxes); ok {
		args[1] = v.inbox + own
	}
	if err := v.send(verb, args); err != nil {
		return err
	}
	if _, err := io.CopyN(v.out, v.in, int64(size)); err != nil {
		return err
	}
	var end [2]byte
	if _, err := io.ReadFull(v.in, end[:]); err != nil {
		return err
	}
	if end != [2]byte{'\r', '\n'} {
		return io.ErrUnexpectedEOF // an error message cannot be sent in the middle of a message
	}
	_, err := v.out.Write(end[:])
	return err
}

func (v *vet) send(verb string, args []string) error {
	_, _ = v.out.WriteString(verb) // once a write has failed, all further ones fail too
	for _, a := range args {
		_ = v.out.WriteByte(' ')
		_, _ = v.out.WriteString(a)
	}
	_, err := v.out.WriteString("\r\n")
	return err
}

// refuse returns a substitute subject that the server refuses and names in its error; back replaces it there with the client's subject.
func (v *vet) refuse(subject, why string) string {
	v.count.Add(1)
	return v.refused + "." + why + "." + subject
}

const (
	inboxes   = "_INBOX."
	discovery = "$SRV."
)

// subscribe returns the subject under which a subscription is forwarded: the client's, one of its own inboxes, or one
// that the server refuses.
func (v *vet) subscribe(subject, sid string) string {
	of, ok := v.maySubscribe(subject)
	if !ok {
		return v.refuse(subject, byRights)
	}
	if !v.subs.add(sid, of) {
		return v.refuse(subject, bySubs)
	}
	if own, ok := strings.CutPrefix(subject, inboxes); ok {
		return v.inbox + own
	}
	return subject
}

// maySubscribe checks a subject: topics and requests by the client's rights, inboxes if the client may make requests, and discovery if it
// may serve. No client can subscribe to all inboxes: each connection has its own.
func (v *vet) maySubscribe(subject string) (of kind, ok bool) {
	rest, own := strings.CutPrefix(subject, v.prefix)
	inbox, isInbox := strings.CutPrefix(subject, inboxes)
	if own {
		if pattern, ok := topic.CutTopic(rest); ok {
			return topics, v.who.all || topic.CheckPattern("", pattern) == nil && v.who.rights.CanSubscribe(pattern)
		}
		if pattern, ok := topic.CutRequest(rest); ok {
			return served, v.who.all || topic.CheckPattern("", pattern) == nil && v.who.rights.CanServe(pattern)
		}
	}
	switch {
	case isInbox:
		first, _, _ := strings.Cut(inbox, ".")
		return others, first != "" && !strings.ContainsAny(first, "*>") && (v.who.all || len(v.who.rights.Request) > 0)
	case v.who.all:
		return others, !v.isRefused(subject)
	case strings.HasPrefix(subject, discovery):
		return others, len(v.who.rights.Serve) > 0
	}
	return others, false
}

// isRefused reports whether a subject is one of the substitutes for refused subjects, which no client may use.
func (v *vet) isRefused(subject string) bool { return strings.HasPrefix(subject, v.refused+".") }

// mayPublish checks a message: topics and requests by the client's rights, and discovery if the client may make requests. Only the server
// knows whether a message is an answer. Without an admin's key, a reply subject must be an inbox: otherwise the worker would publish to a
// subject that the client may not use. A message of a topic that could not be sent to sessions is refused, whoever publishes it.
func (v *vet) mayPublish(subject, reply string, data, header int) (why string, ok bool) {
	if rest, own := strings.CutPrefix(subject, v.prefix); own {
		if name, ok := topic.CutTopic(rest); ok {
			return v.mayPublishTopic(name, reply, data, header)
		}
		if name, ok := topic.CutRequest(rest); ok {
			return byRights, v.mayReply(reply) && topic.CheckName("", name) == nil && (v.who.all || v.who.rights.CanRequest(name))
		}
	}
	switch {
	case v.who.all:
		return byRights, !v.isRefused(subject)
	case !v.mayReply(reply):
		return byRights, false
	case strings.HasPrefix(subject, discovery):
		return byRights, len(v.who.rights.Request) > 0
	}
	return byRights, strings.HasPrefix(subject, inboxes)
}

func (v *vet) mayReply(reply string) bool {
	return v.who.all || reply == "" || strings.HasPrefix(reply, inboxes)
}

func (v *vet) mayPublishTopic(name, reply string, data, header int) (why string, ok bool) {
	switch {
	case !v.mayReply(reply) || !v.who.all && !v.who.rights.CanPublish(name):
		return byRights, false
	case topic.CheckName("", name) != nil || data > topic.MaxData || header > topic.MaxHeader:
		return bySize, false
	case v.publishes != nil && v.publishes(v.who.principal.Key, 1) > 0:
		return byRate, false
	}
	return "", true
}
