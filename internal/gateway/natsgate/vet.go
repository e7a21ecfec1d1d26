package natsgate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"godwit.dev/godwit/internal/topic"
)

// vet hands on what a client sends, written anew from what was read so that the server reads the same, and has the
// server refuse what the client may not do.
type vet struct {
	in         *bufio.Reader
	out        *bufio.Writer
	prefix     string // of the app's subjects
	who        *who
	refused    string
	maxPayload int
	count      *atomic.Uint64
}

// prefix begins the subjects of an app.
func prefix(app string) string { return "godwit." + topic.EncodeToken(app) + "." }

// errWrong is what no client of NATS sends.
var errWrong = errors.New("not the NATS protocol")

// run hands on until the client has gone, which is an error, or until it sent what cannot be understood: then the server
// has got something that it answers and closes for.
func (v *vet) run() error {
	for {
		if err := v.operation(); err != nil {
			if !errors.Is(err, errWrong) {
				return err
			}
			_, _ = v.out.WriteString("WRONG\r\n") // what cannot be written is not waited for: the connection ends
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
		return v.send(verb, args)
	case verb == "SUB" && (len(args) == 2 || len(args) == 3):
		if !v.maySubscribe(args[0]) {
			args[0] = v.refuse(args[0])
		}
		return v.send(verb, args)
	case verb == "PUB" && (len(args) == 2 || len(args) == 3):
		return v.publish(verb, args, 1)
	case verb == "HPUB" && (len(args) == 3 || len(args) == 4):
		return v.publish(verb, args, 2)
	}
	return errWrong
}

// publish hands on a message; the last numbers of its arguments are sizes, that of all first from the end.
func (v *vet) publish(verb string, args []string, numbers int) error {
	names := len(args) - numbers
	for i := names; i < len(args); i++ {
		n, err := strconv.ParseUint(args[i], 10, 31)
		if err != nil || n > uint64(v.maxPayload) {
			return errWrong
		}
		args[i] = strconv.FormatUint(n, 10)
	}
	size, _ := strconv.Atoi(args[len(args)-1])
	reply := ""
	if names == 2 {
		reply = args[1]
	}
	if !v.mayPublish(args[0], reply, size) {
		args[0] = v.refuse(args[0])
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
		return io.ErrUnexpectedEOF // within a message nothing can be said
	}
	_, err := v.out.Write(end[:])
	return err
}

func (v *vet) send(verb string, args []string) error {
	_, _ = v.out.WriteString(verb) // a writer that has failed goes on failing
	for _, a := range args {
		_ = v.out.WriteByte(' ')
		_, _ = v.out.WriteString(a)
	}
	_, err := v.out.WriteString("\r\n")
	return err
}

// refuse gives a subject that the server refuses, which its error names.
func (v *vet) refuse(subject string) string {
	v.count.Add(1)
	return v.refused + "." + subject
}

const (
	inboxes   = "_INBOX."
	discovery = "$SRV."
)

// maySubscribe: topics and requests by the client's rights; inboxes for those who may ask, and discovery for those who
// serve.
func (v *vet) maySubscribe(subject string) bool {
	rest, own := strings.CutPrefix(subject, v.prefix)
	switch {
	case v.who.all:
		return true
	case own:
		if pattern, ok := topic.CutTopic(rest); ok {
			return topic.CheckPattern("", pattern) == nil && v.who.rights.CanSubscribe(pattern)
		}
		pattern, ok := topic.CutRequest(rest)
		return ok && topic.CheckPattern("", pattern) == nil && v.who.rights.CanServe(pattern)
	case strings.HasPrefix(subject, inboxes):
		return len(v.who.rights.Request) > 0
	case strings.HasPrefix(subject, discovery):
		return len(v.who.rights.Serve) > 0
	}
	return false
}

// mayPublish: topics and requests by the client's rights, and discovery for those who may ask. Whether an answer is one
// the server knows. Answers go to inboxes: elsewhere whoever gives them would publish what the client may not.
func (v *vet) mayPublish(subject, reply string, size int) bool {
	rest, own := strings.CutPrefix(subject, v.prefix)
	switch {
	case v.who.all:
		return true
	case reply != "" && !strings.HasPrefix(reply, inboxes):
		return false
	case own:
		if name, ok := topic.CutTopic(rest); ok {
			return size <= topic.MaxData && topic.CheckName("", name) == nil && v.who.rights.CanPublish(name)
		}
		name, ok := topic.CutRequest(rest)
		return ok && topic.CheckName("", name) == nil && v.who.rights.CanRequest(name)
	case strings.HasPrefix(subject, discovery):
		return len(v.who.rights.Request) > 0
	}
	return strings.HasPrefix(subject, inboxes)
}
