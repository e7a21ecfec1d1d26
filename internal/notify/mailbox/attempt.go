package mailbox

import (
	"slices"
	"time"
)

// A What is a kind of attempt.
type What uint8

// Kinds of attempts. The numbers are stored: never renumber.
const (
	Written What = iota // to a connection
	Nacked              // its client could not take it
	Acked               // by a device
)

// Attempt is a try to bring a copy to a connection, or the result of one.
type Attempt struct {
	What    What
	At      time.Time
	Device  string // empty: it names none
	Gateway string // ws, grpc, sse, poll; empty: it came by another way than a connection, or is not known
	Node    string // that wrote it; empty where there is only one
	Reason  string // of Nacked; empty: it gave none
}

// Over is a connection in four bytes: over what, and to which device. The zero value is none.
type Over struct {
	Gateway uint8  // a number of Gateway
	Device  uint16 // a hash of its name; 0: it has none
}

// OverOf is that of a gateway and a device.
func OverOf(gateway, device string) Over {
	return Over{Gateway: gatewayOf(gateway), Device: HashDevice(device)}
}

// The store keeps a gateway's index in this list: never reorder. The last one stands for any other.
var gateways = [...]string{"", "ws", "grpc", "sse", "poll", "", "", "another gateway"}

// MaxGateway is the highest number of a gateway.
const MaxGateway = uint8(len(gateways) - 1)

// Gateway names one by its number.
func Gateway(n uint8) string { return gateways[n&MaxGateway] }

func gatewayOf(name string) uint8 {
	if name == "" {
		return 0
	}
	if i := slices.Index(gateways[:], name); i > 0 {
		return uint8(i) //nolint:gosec // of eight
	}
	return MaxGateway
}

// HashDevice is 16 bits of a device's name (FNV-1a, folded), 0 for none. It is stored: never change it.
func HashDevice(device string) uint16 {
	if device == "" {
		return 0
	}
	sum := uint32(2166136261)
	for i := range len(device) {
		sum = (sum ^ uint32(device[i])) * 16777619
	}
	return max(1, uint16(sum^sum>>16)) //nolint:gosec // a part of it
}
