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

// Definition is what the server knows of a channel besides how to send over it.
type Definition struct {
	Channel Channel
	// Number stands for the channel in stored rows. It is unlike that of any other channel, and never changes.
	Number int16
	// Address checks an address, whose fields it gets, and returns it in its one form: a value that encodes as an object. An error is
	// a *notification.FieldError. The package audience knows the addresses of the server's own channels: theirs is nil.
	Address func(fields map[string]json.RawMessage) (normal any, err error)
	// Device: a device makes an address for one server, and only its holder knows it, who may register it himself.
	Device bool
	Policy Policy
}

// Policy is how a channel is sent to.
type Policy struct {
	// Group is how many deliveries are marked as being sent at once: a crash leaves up to this many, and those in
	// flight, as unknown.
	Group int
	// Resend: an unknown outcome is sent again, since the channel replaces the first message by the second or its
	// receiver drops repeated ids. Otherwise it is parked until a person decides.
	Resend   bool
	InFlight int // requests at once
	// Share is how many of them one host or credential may have. Even if many hosts hang, the last of them leave places free
	// for others.
	Share int
	// Solo: everything goes through one scope, so a sender waits for it instead of looking for others.
	Solo    bool
	Timeout time.Duration // how long one attempt may take, the sender's own timeout included
}

// own are the server's own channels, in the order in which people see them.
var own = []*Definition{
	{Channel: Live, Number: 1, Policy: Policy{Group: 50, Resend: true, InFlight: 64, Share: 64, Solo: true, Timeout: 30 * time.Second}},
	{Channel: WebPush, Number: 2, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 512, Share: 256, Timeout: 30 * time.Second}},
	{Channel: FCM, Number: 5, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 256, Share: 256, Solo: true, Timeout: 60 * time.Second}},
	{Channel: APNs, Number: 6, Device: true, Policy: Policy{Group: 50, Resend: true, InFlight: 256, Share: 256, Solo: true, Timeout: 60 * time.Second}},
	{Channel: Telegram, Number: 3, Policy: Policy{Group: 1, InFlight: 32, Share: 32, Solo: true, Timeout: 30 * time.Second}},
	{Channel: Webhook, Number: 4, Policy: Policy{Group: 10, Resend: true, InFlight: 128, Share: 32, Timeout: 30 * time.Second}},
}

var (
	defining sync.Mutex
	brought  atomic.Pointer[[]*Definition] // those of modules; nil: none
)

// Define makes a channel of a module known to the process. Its name and number mean the same in each server of the process, so a
// second definition of both changes nothing.
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

// All are the definitions of all channels, in the order in which people see them.
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

// Channels lists all channels, in the order in which people see them.
func Channels() (chs []Channel) {
	for _, d := range All() {
		chs = append(chs, d.Channel)
	}
	return chs
}
