package attempts

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

var noon = time.UnixMilli(1_900_000_000_123).UTC()

func TestAnAttemptIs24BytesInMemory(t *testing.T) {
	if n := unsafe.Sizeof(Tried{}); n > 24 {
		t.Errorf("%d bytes", n)
	}
}

func TestAttemptsAreReadOnceInTimeOrder(t *testing.T) {
	reason := "busy\nreally"
	marks := []mailbox.Mark{
		{DeliveredAt: noon.Add(time.Second), Device: "phone", Over: mailbox.OverOf("grpc", "phone")},
		{DeliveredAt: noon, Over: mailbox.OverOf("ws", "")},
		{DeliveredAt: noon.Add(2 * time.Second), Device: "phone", Over: mailbox.OverOf("ws", ""), What: mailbox.Nacked, Reason: &reason},
		{DeliveredAt: noon.Add(3 * time.Second), Device: "phone", Over: mailbox.OverOf("carrier pigeon", "phone"), What: mailbox.Nacked},
	}
	var b []byte
	for range 2 {
		for i := range marks {
			b = Of(&marks[i]).Append(b)
		}
	}
	b = Acked(&mailbox.Settle{Device: "~a session's own name", At: noon.Add(4 * time.Second)}).Append(b)
	want := []mailbox.Attempt{
		{At: noon, Gateway: "ws"},
		{At: noon.Add(time.Second), Device: "phone", Gateway: "grpc"},
		{At: noon.Add(2 * time.Second), Device: "phone", Gateway: "ws", What: mailbox.Nacked, Reason: reason},
		{At: noon.Add(3 * time.Second), Device: "phone", Gateway: "carrier pigeon", What: mailbox.Nacked},
		{At: noon.Add(4 * time.Second), What: mailbox.Acked},
	}
	if got, err := Decode(b); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestALongReasonIsCutBetweenLetters(t *testing.T) {
	reason := strings.Repeat("ö", 400)
	m := mailbox.Mark{What: mailbox.Nacked, DeliveredAt: noon, Reason: &reason}
	got := Of(&m).Attempt().Reason
	if !utf8.ValidString(got) || len(got) > mostReason+len("…") || len(got) < mostReason {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestAViaNamesItsDeviceAmongThoseOfTheRecipient(t *testing.T) {
	for _, c := range []struct {
		device string
		known  []string
		want   string
	}{
		{"phone", []string{"desk", "phone", "phone"}, "phone"},
		{"", []string{"desk"}, ""},
		{"phone", []string{"desk"}, "a device that is not known any more"},
		{"phone", nil, "a device that is not known any more"},
	} {
		r := mailbox.Record{Status: notification.Acked, DeliveredAt: noon, SettledAt: noon.Add(time.Second)}
		Tell(&r, nil, mailbox.OverOf("sse", c.device), c.known, "a")
		want := []mailbox.Attempt{
			{At: noon, Device: c.want, Gateway: "sse", Node: "a"}, {At: noon.Add(time.Second), What: mailbox.Acked, Device: c.want, Gateway: "sse", Node: "a"},
		}
		if !slices.Equal(r.Tried, want) {
			t.Errorf("%q among %q: %+v, want %+v", c.device, c.known, r.Tried, want)
		}
	}
}

func TestDevicesOfOneHashAreBothNamed(t *testing.T) {
	names := map[uint16]string{}
	for i := range 1 << 17 {
		name := time.Duration(i).String()
		if other, met := names[mailbox.HashDevice(name)]; met {
			if got := device(mailbox.OverOf("ws", name), []string{other, name}); got != other+" or "+name {
				t.Errorf("%q", got)
			}
			return
		}
		names[mailbox.HashDevice(name)] = name
	}
	t.Fatal("no two names have the same hash of 16 bits")
}

func TestPlainCopiesAreFoundByPlaceAndTime(t *testing.T) {
	list := []Plain{{Pos: 9, At: 50, Via: mailbox.OverOf("ws", "")}, {Pos: 3, At: 40, Via: mailbox.OverOf("grpc", "phone")}, {Pos: 1 << 40, At: noon.UnixMilli(), Via: mailbox.OverOf("poll", "desk")}}
	b := AppendPlain(nil, list)
	for _, p := range list {
		if got, err := FindPlain(b, p.Pos, p.At); err != nil || got != p.Via {
			t.Errorf("%+v: %+v, %v", p, got, err)
		}
		if got, err := FindPlain(b, p.Pos, p.At+1); err != nil || got != (Via{}) {
			t.Errorf("another time: %+v, %v", got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	reason := "busy"
	m := mailbox.Mark{DeliveredAt: noon, Device: "phone", Over: mailbox.OverOf("ws", ""), What: mailbox.Nacked, Reason: &reason}
	f.Add(Of(&m).Append(nil))
	f.Add([]byte{0x10, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Decode(b)
		if err != nil {
			return
		}
		var again []byte
		for _, a := range list {
			again = Of(&mailbox.Mark{DeliveredAt: a.At, Device: a.Device, Over: mailbox.OverOf(a.Gateway, a.Device), What: a.What}).Append(again)
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("%+v is not read again: %v", list, err)
		}
	})
}

func FuzzFindPlain(f *testing.F) {
	f.Add(AppendPlain(nil, []Plain{{Pos: 9, At: 50, Via: mailbox.OverOf("ws", "phone")}}), int64(9), int64(50))
	f.Fuzz(func(t *testing.T, b []byte, pos, at int64) {
		via, err := FindPlain(b, pos, at)
		if err != nil && via != (Via{}) {
			t.Errorf("%+v and %v", via, err)
		}
	})
}
