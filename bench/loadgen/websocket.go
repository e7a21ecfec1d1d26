package loadgen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// webSocketWire is the client side of RFC 6455, for servers that neither fragment nor compress.
type webSocketWire struct {
	host  string
	proto bool
	hello []byte
	then  []byte // frame sent after the hello; nil: none
	seq   uint64 // number of topic messages received, because these have no numbers of their own
	open  bool   // the handshake is over
}

func newWebSocketWire(t Target, proto bool, hello []byte) *webSocketWire {
	return &webSocketWire{host: t.HTTP, proto: proto, hello: hello}
}

func (w *webSocketWire) begin() []byte {
	name := "godwit.v1.json"
	if w.proto {
		name = "godwit.v1.proto"
	}
	return fmt.Appendf(nil, "GET /v1/connect HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", w.host, name)
}

// Opcodes.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

func (w *webSocketWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	if !w.open {
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			return 0, nil, nil
		}
		if !bytes.HasPrefix(b, []byte("HTTP/1.1 101")) {
			return 0, nil, fmt.Errorf("the server refused the WebSocket: %.200q", b)
		}
		w.open = true
		used = end + 4
		send = w.appendMessage(send, w.hello)
		if w.then != nil {
			send = w.appendMessage(send, w.then)
		}
		w.hello, w.then = nil, nil
	}
	for {
		op, payload, n, err := wsFrame(b[used:])
		if err != nil || n == 0 {
			return used, send, err
		}
		used += n
		switch op {
		case opText, opBinary:
			if err := s.frame(payload); err != nil {
				return used, send, err
			}
		case opPing:
			send = appendMasked(send, opPong, payload)
		case opClose:
			return used, send, errors.New("the server closed the WebSocket")
		}
	}
}

// maxPayload is more than any measured server sends in one frame.
const maxPayload = 64 << 20

// wsFrame parses one unmasked frame at the beginning of b; n is its length, or 0 if it is incomplete.
func wsFrame(b []byte) (op byte, payload []byte, n int, err error) {
	if len(b) < 2 {
		return 0, nil, 0, nil
	}
	if b[0]&0x70 != 0 || b[0]&0x80 == 0 || b[1]&0x80 != 0 {
		return 0, nil, 0, errFrame
	}
	head, size := 2, int(b[1])
	switch size {
	case 126:
		if head = 4; len(b) < head {
			return 0, nil, 0, nil
		}
		size = int(binary.BigEndian.Uint16(b[2:]))
	case 127:
		if head = 10; len(b) < head {
			return 0, nil, 0, nil
		}
		n := binary.BigEndian.Uint64(b[2:])
		if n > maxPayload {
			return 0, nil, 0, errFrame
		}
		size = int(n)
	}
	if len(b) < head+size {
		return 0, nil, 0, nil
	}
	return b[0] & 0x0f, b[head : head+size], head + size, nil
}

func (w *webSocketWire) appendMessage(dst, p []byte) []byte {
	if w.proto {
		return appendMasked(dst, opBinary, p)
	}
	return appendMasked(dst, opText, p)
}

// appendMasked appends a frame whose mask is zero: the server has the usual work to unmask, the load generator none.
func appendMasked(dst []byte, op byte, p []byte) []byte {
	dst = append(dst, 0x80|op)
	switch {
	case len(p) < 126:
		dst = append(dst, 0x80|byte(len(p)))
	default:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(len(p))) // our frames are shorter than 64 KB
	}
	return append(append(dst, 0, 0, 0, 0), p...)
}

func (w *webSocketWire) ack(dst []byte, ids [][]byte) []byte {
	if w.proto {
		return appendMasked(dst, opBinary, ackProto(ids))
	}
	return appendMasked(dst, opText, ackJSON(ids))
}

func (w *webSocketWire) say(dst, frame []byte) []byte { return w.appendMessage(dst, frame) }

func (w *webSocketWire) read(frame []byte) (arrival, error) {
	if w.proto {
		return readProto(frame)
	}
	if bytes.HasPrefix(frame, []byte(messageMark)) {
		return w.readMessage(frame[len(messageMark):])
	}
	return readJSON(frame)
}

func ackJSON(ids [][]byte) []byte {
	b := append(make([]byte, 0, 32+32*len(ids)), `{"ack":{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), id...), '"')
	}
	return append(b, "]}}"...)
}

// Field numbers of godwit.v1.ClientFrame and Ack.
const (
	fieldAck = 2
	ackIDs   = 1
)

func ackProto(ids [][]byte) []byte {
	body := make([]byte, 0, 32*len(ids))
	for _, id := range ids {
		body = protowire.AppendTag(body, ackIDs, protowire.BytesType)
		body = protowire.AppendBytes(body, id)
	}
	b := protowire.AppendTag(make([]byte, 0, len(body)+8), fieldAck, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}
