package bus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/messaging/topic"
)

// operation is an operation of a NATS server for a client without headers and acknowledgements.
// https://docs.nats.io/reference/reference-protocols/nats-protocol
type operation struct {
	verb    verb
	subject string // of a message
	data    []byte // of a message
	text    string // of an error
}

type verb int

const (
	opNothing verb = iota // an operation that a line ignores
	opInfo
	opMessage
	opPing
	opPong
	opError
)

// errProtocol is the error for bytes that no NATS server sends.
var errProtocol = errors.New("not the NATS protocol")

// readOperation reads the next operation. The result shares no memory with the reader.
func readOperation(r *bufio.Reader) (operation, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errProtocol
		}
		return operation{}, err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return operation{}, errProtocol
	}
	name, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(name) {
	case "MSG":
		return readMessage(r, rest)
	case "PING":
		return operation{verb: opPing}, nil
	case "PONG":
		return operation{verb: opPong}, nil
	case "INFO":
		return operation{verb: opInfo}, nil
	case "-ERR":
		return operation{verb: opError, text: strings.Trim(string(rest), "' ")}, nil
	case "+OK":
		return operation{}, nil
	}
	return operation{}, errProtocol
}

// readMessage reads the rest of a MSG operation: a subject, the number of the subscription, optionally a subject for the answer, the length
// of the data, and the data on the lines after it.
func readMessage(r *bufio.Reader, rest []byte) (operation, error) {
	args := bytes.FieldsFunc(rest, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(args) != 3 && len(args) != 4 {
		return operation{}, errProtocol
	}
	n, err := strconv.ParseUint(string(args[len(args)-1]), 10, 32)
	if err != nil || n > maxBetweenNodes {
		return operation{}, errProtocol
	}
	op := operation{verb: opMessage, subject: string(args[0]), data: make([]byte, n)}
	if _, err := io.ReadFull(r, op.data); err != nil {
		return operation{}, err
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return operation{}, err
	}
	if end != [2]byte{'\r', '\n'} {
		return operation{}, errProtocol
	}
	return op, nil
}

// The functions below append a client's operations to b.

func appendPublish(b []byte, subject string, n int) []byte {
	b = append(append(b, "PUB "...), subject...)
	return append(strconv.AppendInt(append(b, ' '), int64(n), 10), "\r\n"...)
}

func appendSubscribe(b []byte, subject string, id uint64) []byte {
	b = append(append(b, "SUB "...), subject...)
	return append(strconv.AppendUint(append(b, ' '), id, 10), "\r\n"...)
}

func appendUnsubscribe(b []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(b, "UNSUB "...), id, 10), "\r\n"...)
}

// checkSubject refuses subjects that are not valid in the protocol.
func checkSubject(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\r\n\x00") {
		return fmt.Errorf("%.100q is no subject", s)
	}
	return nil
}

// checkSize refuses messages between nodes that are larger than the bus allows.
func checkSize(data []byte) error {
	if len(data) > maxBetweenNodes {
		return fmt.Errorf("%w: the message is too large: %d bytes are allowed", topic.ErrUnavailable, maxBetweenNodes)
	}
	return nil
}
