package mailbox

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What is a kind of attempt.
type What uint8

// Kinds of attempts. The numbers are stored: never renumber.
const (
	Written What = iota // to a connection
	Nacked              // the client could not accept the copy
	Acked               // by a device
)

// Attempt is an attempt to deliver a copy over a connection, or the result of one.
type Attempt struct {
	What    What
	At      time.Time
	Device  string // empty: it names none
	Gateway string // ws, grpc, sse, poll or the name of another gateway; empty: not over a connection, or unknown
	Node    string // name of the node that recorded it; empty if there is only one node
	Reason  string // for Nacked; empty: the client gave none
}

// Over identifies a connection in four bytes: its gateway and its device. The zero value means no connection.
type Over struct {
	Gateway uint8  // a gateway's number in this process; see Gateway
	Device  uint16 // a hash of the device's name; 0: it has none
}

// OverOf returns the Over of a gateway and a device.
func OverOf(gateway, device string) Over {
	return Over{Gateway: gatewayOf(gateway), Device: HashDevice(device)}
}

// Named reports whether stores must keep the gateway's name, since its number is valid only in this process.
func (o Over) Named() bool { return o.Gateway > MaxGateway }

// Stores keep a listed gateway as its index in this list: never reorder it. They keep other gateways by name, with the last index, which
// takes a few bytes more.
var gateways = [...]string{"", "ws", "grpc", "sse", "poll", "mqtt", "", "another gateway"}

// MaxGateway is the highest number of a gateway that stores keep.
const MaxGateway = uint8(len(gateways) - 1)

// maxNamed is the most names of other gateways in a process: a byte holds no more numbers. Further ones are not distinguished.
const maxNamed = math.MaxUint8 - int(MaxGateway)

// named are the names of other gateways, in the order in which they were first used. Their numbers follow MaxGateway.
var named struct {
	sync.Mutex
	list atomic.Pointer[[]string] // is replaced, never changed
}

// Gateway returns the name of the gateway with a number.
func Gateway(n uint8) string {
	if n > MaxGateway {
		return (*named.list.Load())[n-MaxGateway-1]
	}
	return gateways[n]
}

func gatewayOf(name string) uint8 {
	if name == "" {
		return 0
	}
	if i := slices.Index(gateways[:], name); i > 0 {
		return uint8(i) // of eight
	}
	if n := numberOf(name); n > 0 {
		return n
	}
	named.Lock()
	defer named.Unlock()
	if n := numberOf(name); n > 0 {
		return n
	}
	var list []string
	if l := named.list.Load(); l != nil {
		list = *l
	}
	if len(list) == maxNamed {
		return MaxGateway
	}
	list = append(slices.Clip(list), name)
	named.list.Store(&list)
	return MaxGateway + uint8(len(list)) // maxNamed
}

// numberOf returns the number of a gateway; 0: it has none yet.
func numberOf(name string) uint8 {
	if l := named.list.Load(); l != nil {
		if i := slices.Index(*l, name); i >= 0 {
			return MaxGateway + 1 + uint8(i) // maxNamed
		}
	}
	return 0
}

// HashDevice is a 16-bit hash of a device's name (FNV-1a, folded), or 0 for no name. It is stored: never change it.
func HashDevice(device string) uint16 {
	if device == "" {
		return 0
	}
	sum := uint32(2166136261)
	for i := range len(device) {
		sum = (sum ^ uint32(device[i])) * 16777619
	}
	return max(1, uint16(sum^sum>>16)) // a part of it
}
