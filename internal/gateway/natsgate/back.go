package natsgate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// back forwards the server's messages to the client. It restores the names of the connection's inboxes, hides other connections' inboxes
// from clients that subscribe to everything, and puts the client's own subject into errors.
type back struct {
	in      *bufio.Reader
	out     *bufio.Writer
	inbox   string
	refused string
	subs    *subscriptions
}

// backRoom is the length in bytes of the longest line that a server sends with a message: a subject and a reply, each as long as a client
// may write it.
const backRoom = 16 << 10

// run forwards until either side has gone.
func (b *back) run() error {
	for {
		if err := b.operation(); err != nil {
			return err
		}
		if b.in.Buffered() == 0 {
			if err := b.out.Flush(); err != nil {
				return err
			}
		}
	}
}

func (b *back) operation() error {
	line, err := b.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) && bytes.HasPrefix(line, []byte("INFO ")): // an INFO line lists all servers of a cluster
		return b.rest(line)
	case err != nil:
		return err
	case bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG ")):
		return b.message(line)
	case bytes.HasPrefix(line, []byte("-ERR ")):
		_, err = b.out.WriteString(b.asWritten(string(line)))
		return err
	}
	_, err = b.out.Write(line)
	return err
}

// rest forwards a line to its end.
func (b *back) rest(part []byte) error {
	for {
		_, _ = b.out.Write(part) // once a write has failed, all further ones fail too
		var err error
		if part, err = b.in.ReadSlice('\n'); err == nil {
			_, err = b.out.Write(part)
			return err
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// message forwards a message unless it goes to another connection's inbox.
func (b *back) message(line []byte) error {
	verb, after, _ := bytes.Cut(line, []byte(" "))
	subject, after, found := bytes.Cut(after, []byte(" "))
	sid, _, _ := bytes.Cut(after, []byte(" "))
	size, err := strconv.ParseUint(string(line[bytes.LastIndexByte(line, ' ')+1:len(line)-len("\r\n")]), 10, 31)
	if err != nil || !found {
		return fmt.Errorf("read what the bus's server sends: %.40q", line)
	}
	left := int64(size) + int64(len("\r\n"))
	b.subs.got(sid)
	if inbox, ok := bytes.CutPrefix(subject, []byte(b.inbox)); ok {
		for _, part := range [][]byte{verb, []byte(" " + inboxes), inbox, []byte(" "), after} {
			_, _ = b.out.Write(part)
		}
	} else if bytes.HasPrefix(subject, []byte(inboxes)) {
		_, err := io.CopyN(io.Discard, b.in, left)
		return err
	} else {
		_, _ = b.out.Write(line)
	}
	_, err = io.CopyN(b.out, b.in, left)
	return err
}

// asWritten returns an error line with the subject as the client wrote it, and the reason of the refusal.
func (b *back) asWritten(line string) string {
	before, after, found := strings.Cut(line, `"`+b.refused+".")
	why, subject, more := strings.Cut(after, ".")
	said, known := reasons[why]
	if !found || !more || !known {
		return line
	}
	text, ended := strings.CutSuffix(before+`"`+subject, "'\r\n")
	if !ended {
		return line
	}
	return text + said + "'\r\n"
}
