// Package wire is the wire format of MQTT 3.1.1 and 5: a push parser for an event loop, which finds packets in bytes and decodes them
// without a goroutine or a blocking read, and an encoder that appends packets to a buffer. It knows nothing of sessions. "Section" in
// comments is a section of OASIS MQTT Version 5.0; where 3.1.1 differs, the comment says so.
package wire

import "fmt"

// Version is the protocol level in a CONNECT packet.
type Version byte

// Versions that are served.
const (
	V311 Version = 4
	V5   Version = 5
)

// Type is the type of a packet (section 2.1.2).
type Type byte

// Packet types.
const (
	CONNECT Type = iota + 1
	CONNACK
	PUBLISH
	PUBACK
	PUBREC
	PUBREL
	PUBCOMP
	SUBSCRIBE
	SUBACK
	UNSUBSCRIBE
	UNSUBACK
	PINGREQ
	PINGRESP
	DISCONNECT
	AUTH
)

var typeNames = [...]string{
	"reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK",
	"PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
}

func (t Type) String() string { return typeNames[t&0xf] }

// Limits of packets.
const (
	maxLengthBytes = 4         // of the remaining length
	maxString      = 1<<16 - 1 // bytes of a string or of binary data
	maxUser        = 64        // user properties of a packet; more are refused, because each costs memory
	MaxFilters     = 256       // filters of a SUBSCRIBE or UNSUBSCRIBE packet: as many as a session may have patterns
	MaxRemaining   = 1<<28 - 1 // the most that a remaining length can say
	headRoom       = 1 + maxLengthBytes
)

// Reason is a reason code of MQTT 5 (section 2.4).
type Reason byte

// Reason codes.
const (
	Success             Reason = 0x00
	GrantedQoS1         Reason = 0x01
	GrantedQoS2         Reason = 0x02
	WithWill            Reason = 0x04
	NoSubscribers       Reason = 0x10
	NoSubscription      Reason = 0x11
	Unspecified         Reason = 0x80
	Malformed           Reason = 0x81
	ProtocolError       Reason = 0x82
	Implementation      Reason = 0x83
	UnsupportedVersion  Reason = 0x84
	InvalidClientID     Reason = 0x85
	BadUserPassword     Reason = 0x86
	NotAuthorized       Reason = 0x87
	ServerUnavailable   Reason = 0x88
	ServerBusy          Reason = 0x89
	Banned              Reason = 0x8a
	ShuttingDown        Reason = 0x8b
	BadAuthMethod       Reason = 0x8c
	KeepAliveTimeout    Reason = 0x8d
	TakenOver           Reason = 0x8e
	InvalidFilter       Reason = 0x8f
	InvalidTopic        Reason = 0x90
	PacketIDInUse       Reason = 0x91
	PacketIDNotFound    Reason = 0x92
	ReceiveMaxExceeded  Reason = 0x93
	InvalidAlias        Reason = 0x94
	TooLarge            Reason = 0x95
	RateTooHigh         Reason = 0x96
	QuotaExceeded       Reason = 0x97
	Administrative      Reason = 0x98
	InvalidPayload      Reason = 0x99
	RetainUnsupported   Reason = 0x9a
	QoSUnsupported      Reason = 0x9b
	UseAnotherServer    Reason = 0x9c
	ServerMoved         Reason = 0x9d
	SharedUnsupported   Reason = 0x9e
	RateExceeded        Reason = 0x9f
	MaxConnectTime      Reason = 0xa0
	SubIDUnsupported    Reason = 0xa1
	WildcardUnsupported Reason = 0xa2
)

// Failed reports whether a reason code is an error.
func (r Reason) Failed() bool { return r >= Unspecified }

// Error is a packet that breaks the protocol. The connection ends with its reason.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string { return e.Text }

func malformed(format string, args ...any) error {
	return &Error{Malformed, fmt.Sprintf(format, args...)}
}

func broken(reason Reason, format string, args ...any) error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// Packet is a packet that is complete but not decoded. Body is borrowed from the input.
type Packet struct {
	First byte // type and flags
	Body  []byte
}

// Type returns the packet's type.
func (p Packet) Type() Type { return Type(p.First >> 4) }

// Next finds the first packet in b, whose body may have most bytes. size is its length with the fixed header; 0: b is not complete yet. A
// wrong beginning is reported at once, before the rest has come.
func Next(b []byte, most int) (p Packet, size int, err error) {
	if len(b) == 0 {
		return p, 0, nil
	}
	if err := checkFirst(b[0]); err != nil {
		return p, 0, err
	}
	n, used, err := varint(b[1:])
	switch {
	case err != nil:
		return p, 0, err
	case used == 0:
		return p, 0, nil
	case n > most:
		return p, 0, broken(TooLarge, "a %s packet of %d bytes; at most %d are taken", Type(b[0]>>4), n, most)
	}
	at := 1 + used
	if len(b)-at < n {
		return p, 0, nil
	}
	return Packet{b[0], b[at : at+n : at+n]}, at + n, nil
}

// Size returns the length of the packet at the beginning of b, whose fixed header Next has checked.
func Size(b []byte) int {
	n, used, _ := varint(b[1:]) // was checked
	return 1 + used + n
}

// flags are the fixed flags of each type (section 2.1.3); PUBLISH has flags of its own.
var flags = [16]byte{PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}

func checkFirst(first byte) error {
	switch t := Type(first >> 4); {
	case t == 0:
		return malformed("packet type 0 is reserved")
	case t == PUBLISH:
		if first>>1&3 == 3 {
			return malformed("PUBLISH: QoS 3 is reserved")
		}
		if first>>1&3 == 0 && first&dupFlag != 0 {
			return malformed("PUBLISH: DUP is set at QoS 0")
		}
	case first&0xf != flags[t]:
		return malformed("%s: the reserved flags are %04b, not %04b", t, first&0xf, flags[t])
	}
	return nil
}

// varint reads a variable byte integer (section 1.5.5). used 0: b ends before it.
func varint(b []byte) (n, used int, err error) {
	for i, c := range b {
		n |= int(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				return 0, 0, malformed("a variable byte integer has more bytes than it needs")
			}
			return n, i + 1, nil
		}
		if i == maxLengthBytes-1 {
			return 0, 0, malformed("a variable byte integer has more than %d bytes", maxLengthBytes)
		}
	}
	return 0, 0, nil
}

// appendVarint appends a variable byte integer.
func appendVarint(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80) // the low bits
		n >>= 7
	}
	return append(dst, byte(n)) // below 0x80
}

// varintSize is how many bytes appendVarint appends.
func varintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
