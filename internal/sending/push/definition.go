package push

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Definition describes a channel, except how messages are sent over it.
type Definition struct {
	Channel Channel
	// Number represents the channel in stored rows. It is unique among channels and never changes.
	Number int16
	// Address checks the fields of an address and returns its canonical form, a value that encodes as a JSON object. Errors are
	// *notification.FieldError. It is nil for the server's own channels, whose addresses the package audience checks.
	Address func(fields map[string]json.RawMessage) (normal any, err error)
	// Device reports that each address is created by a device for one server. Its holder may register it without an API key, since nobody
	// else knows it. Other addresses belong to persons who may not have agreed, so only a back end registers them.
	Device bool
	// Through is the channel whose settings and sender this one uses; empty: its own.
	Through Channel
	// Named: a campaign sends there only if its audience names the channel, since what it sends has to suit.
	Named bool
	// Follows: the addresses follow objects, whose versions go there. Neither campaigns nor steps send there.
	Follows bool
	Policy  Policy
}

// Policy limits how messages are sent over a channel.
type Policy struct {
	// Group is the number of deliveries that are marked as being sent in one commit. After a crash the outcome of up to this many, and of
	// those in flight, is unknown.
	Group int
	// Resend: an unknown outcome is sent again, since the channel replaces the first message by the second or its
	// receiver drops repeated ids. Otherwise it is parked until a person decides.
	Resend   bool
	InFlight int // most requests at once
	// Share is how many of them one host or credential may have. Even if many hosts hang, the last of them leave places free
	// for others.
	Share int
	// Solo: everything goes through one scope, so a sender waits for it instead of looking for others.
	Solo    bool
	Timeout time.Duration // how long one attempt may take, the sender's own timeout included
}

// own are the server's own channels, in the order in which pages and help list them.
var own = []*Definition{
	{Channel: Live, Number: 1, Policy: Policy{Group: 50, Resend: true, InFlight: 64, Share: 64, Solo: true, Timeout: 30 * time.Second}},
	{Channel: WebPush, Number: 2, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 512, Share: 256, Timeout: 30 * time.Second}},
	{Channel: FCM, Number: 5, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 256, Share: 256, Solo: true, Timeout: 60 * time.Second}},
	{Channel: APNs, Number: 6, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 256, Share: 256, Solo: true, Timeout: 60 * time.Second}},
	// A message that comes twice starts two activities.
	{Channel: LiveActivityStart, Number: 7, Device: true, Through: APNs, Named: true, Policy: Policy{Group: 10, InFlight: 256, Share: 256, Solo: true, Timeout: 60 * time.Second}},
	{Channel: LiveActivity, Number: 8, Device: true, Through: APNs, Follows: true, Policy: Policy{Group: 10, Resend: true, InFlight: 64, Share: 64, Solo: true, Timeout: 60 * time.Second}},
	{Channel: Telegram, Number: 3, Policy: Policy{Group: 1, InFlight: 32, Share: 32, Solo: true, Timeout: 30 * time.Second}},
	{Channel: Webhook, Number: 4, Policy: Policy{Group: 10, Resend: true, InFlight: 128, Share: 32, Timeout: 30 * time.Second}},
}

var (
	defining sync.Mutex
	brought  atomic.Pointer[[]*Definition] // those of modules; nil: none
)

// Define adds a channel of a module for all servers of the process. A second definition with the same name and number changes nothing.
func Define(d Definition) error {
	defining.Lock()
	defer defining.Unlock()
	all := All()
	for _, other := range all {
		switch same := other.Channel == d.Channel; {
		case same && other.Number == d.Number:
			return nil
		case same || other.Number == d.Number:
			return fmt.Errorf("channel %s with number %d: channel %s has number %d", d.Channel, d.Number, other.Channel, other.Number)
		}
	}
	switch p := &d.Policy; {
	case d.Channel == "" || strings.Trim(string(d.Channel), "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return fmt.Errorf("channel %q: its name must be small letters and digits", d.Channel)
	case d.Number < 1 || d.Address == nil:
		return fmt.Errorf("channel %s has no number above 0, or does not check addresses", d.Channel)
	case p.Group < 1 || p.InFlight < 1 || p.Share < 1 || p.Timeout <= 0:
		return fmt.Errorf("channel %s has a policy of sending that lets nothing through", d.Channel)
	}
	more := append(slices.Clone(all[len(own):]), &d)
	brought.Store(&more)
	return nil
}

// All returns the definitions of all channels, in the order in which pages and help list them.
func All() []*Definition {
	if more := brought.Load(); more != nil {
		return slices.Concat(own, *more)
	}
	return own
}

// Find returns the definition of a channel; nil: there is no such channel.
func (ch Channel) Find() *Definition {
	return find(func(d *Definition) bool { return d.Channel == ch })
}

// Known reports whether there is such a channel. Whether a server can send over it depends on its settings.
func (ch Channel) Known() bool { return ch.Find() != nil }

// Numbered returns the definition of the channel with a number; nil: there is none.
func Numbered(number int16) *Definition {
	return find(func(d *Definition) bool { return d.Number == number })
}

func find(is func(*Definition) bool) *Definition {
	if i := slices.IndexFunc(own, is); i >= 0 {
		return own[i]
	}
	if more := brought.Load(); more != nil {
		if i := slices.IndexFunc(*more, is); i >= 0 {
			return (*more)[i]
		}
	}
	return nil
}

// Channels returns the names of all channels that messages are sent to, in the order of All.
func Channels() (chs []Channel) {
	for _, d := range All() {
		if !d.Follows {
			chs = append(chs, d.Channel)
		}
	}
	return chs
}
