package bus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func operations(r io.Reader) (all []operation, err error) {
	in := bufio.NewReaderSize(r, readRoom)
	for {
		op, err := readOperation(in)
		if err != nil {
			return all, err
		}
		all = append(all, op)
	}
}

func TestOperationsOfTheServer(t *testing.T) {
	message := operation{verb: opMessage, subject: "r.x", data: []byte("a\r\n")}
	for text, want := range map[string]struct {
		ops []operation
		err error
	}{
		"INFO {\"a\": 1}\r\nPING\r\nPONG\r\n+OK\r\n":          {[]operation{{verb: opInfo}, {verb: opPing}, {verb: opPong}, {}}, io.EOF},
		"MSG r.x 7 3\r\na\r\n\r\nMSG r.x 7 to 3\r\na\r\n\r\n": {[]operation{message, message}, io.EOF},
		"MSG r.x 7 0\r\n\r\n":                                 {[]operation{{verb: opMessage, subject: "r.x", data: []byte{}}}, io.EOF},
		"-ERR 'Slow Consumer'\r\n":                            {[]operation{{verb: opError, text: "Slow Consumer"}}, io.EOF},
		"PING\n":                                              {nil, errProtocol},
		"HMSG r.x 7 12 15\r\nNATS/1.0\r\n\r\nabc\r\n":         {nil, errProtocol},
		"MSG r.x 3\r\nabc\r\n":                                {nil, errProtocol},
		"MSG r.x 7 -3\r\nabc\r\n":                             {nil, errProtocol},
		"MSG r.x 7 3\r\nabcd\r\n":                             {nil, errProtocol},
		"MSG r.x 7 3\r\nab":                                   {nil, io.ErrUnexpectedEOF},
		fmt.Sprintf("MSG r.x 7 %d\r\n", maxBetweenNodes+1):    {nil, errProtocol},
		"INFO " + strings.Repeat(" ", readRoom) + "\r\n":      {nil, errProtocol},
	} {
		ops, err := operations(strings.NewReader(text))
		if !reflect.DeepEqual(ops, want.ops) || !errors.Is(err, want.err) {
			t.Errorf("%.40q is %+v and %v; want %+v and %v", text, ops, err, want.ops, want.err)
		}
	}
}

// FuzzOperations reads arbitrary bytes, at once and byte by byte. It also checks that a written message is read unchanged.
func FuzzOperations(f *testing.F) {
	for _, text := range []string{
		"INFO {}\r\nPING\r\nPONG\r\n+OK\r\n", "MSG r.x 7 3\r\nabc\r\n", "MSG r.x 7 to 0\r\n\r\n", "-ERR 'x'\r\n", "MSG r.x 7 2097152\r\n", "MSG \r\n", " \r\n", "\n",
	} {
		f.Add([]byte(text), "r.x", []byte("data"))
		f.Add([]byte(text), "0\v", []byte("0")) // ends no word
	}
	f.Fuzz(func(t *testing.T, text []byte, subject string, data []byte) {
		ops, err := operations(bytes.NewReader(text))
		slow, slowErr := operations(iotest.OneByteReader(bytes.NewReader(text)))
		if !reflect.DeepEqual(ops, slow) || !errors.Is(slowErr, err) {
			t.Errorf("%q is %+v and %v, byte by byte %+v and %v", text, ops, err, slow, slowErr)
		}
		if checkSubject(subject) != nil || len(subject) > readRoom/2 {
			return
		}
		ops, _ = operations(strings.NewReader(fmt.Sprintf("MSG %s 1 %d\r\n%s\r\nPONG\r\n", subject, len(data), data)))
		if len(ops) != 2 || ops[0].subject != subject || !bytes.Equal(ops[0].data, data) || ops[1].verb != opPong {
			t.Errorf("a message to %q with %q is %+v", subject, data, ops)
		}
	})
}
