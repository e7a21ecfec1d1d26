package cluster

import (
	"bytes"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func items() []*mailbox.Item {
	now := time.UnixMilli(1_800_000_000_000)
	return []*mailbox.Item{
		{Pos: 1, Recipient: "ann", Seq: 1, N: &notification.Notification{App: "demo", ID: "n", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}},
		{Pos: 1 << 60, Recipient: "a.b@c", Seq: 1 << 50, Attempts: 7, N: &notification.Notification{
			App: "a.t", ID: "x", Ack: notification.AckAll, Priority: notification.Low, CreatedAt: now, ExpiresAt: now.Add(time.Hour), ReplyBy: now.Add(time.Hour),
			Content: notification.Content{Title: "t", Body: "b", Category: "c", Data: []byte{0, 255}, ContentType: "application/octet-stream"},
		}},
		{Pos: 3, Recipient: "r", Seq: 2, N: &notification.Notification{App: "demo", ID: "y", Ack: notification.AckNone, Priority: notification.High, CreatedAt: now, ExpiresAt: now}},
	}
}

func encode(it *mailbox.Item) []byte {
	m := message{kind: kindItem, from: "bootboot", app: it.N.App, recipient: it.Recipient, item: it}
	return m.append(nil)
}

func TestItemSurvivesTheWay(t *testing.T) {
	for _, it := range items() {
		m, err := decode(encode(it))
		if err != nil || m.version != version || m.kind != kindItem || m.from != "bootboot" {
			t.Fatalf("%+v, %v", m, err)
		}
		got, err := decodeItem(m.app, m.recipient, m.body)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []frame.Format{frame.JSON, frame.Proto, frame.SSE} {
			if a, b := frame.NotificationTail(it.N, f), frame.NotificationTail(got.N, f); !bytes.Equal(a, b) {
				t.Errorf("format %s: clients of the other node get\n%s\nwant\n%s", f, b, a)
			}
		}
		got.N = &notification.Notification{
			App: got.N.App, ID: got.N.ID, Content: got.N.Content, Priority: got.N.Priority, Ack: got.N.Ack, CreatedAt: got.N.CreatedAt,
			ExpiresAt: got.N.ExpiresAt, ReplyBy: got.N.ReplyBy,
		}
		want := *it
		want.N = &notification.Notification{
			App: it.N.App, ID: it.N.ID, Content: it.N.Content, Priority: it.N.Priority, Ack: it.N.Ack, CreatedAt: it.N.CreatedAt,
			ExpiresAt: it.N.ExpiresAt, ReplyBy: it.N.ReplyBy,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v of %+v, want %+v of %+v", got, got.N, want, want.N)
		}
	}
}

// A node of a later version encodes the recipient of a message in the same way, whatever follows.
func TestHeaderOfAnotherVersionIsRead(t *testing.T) {
	b := encode(items()[1])
	b[0], b[1] = version+1, 200
	m, err := decode(b)
	if err != nil || m.version == version || m.app != "a.t" || m.recipient != "a.b@c" {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, it := range items() {
		f.Add(encode(it))
	}
	f.Add((&message{kind: kindHere, from: "b", app: "demo", recipient: "ann", body: text(here{Ask: true})}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		it, err := decodeItem(m.app, m.recipient, m.body)
		if err != nil {
			return
		}
		again := message{kind: kindItem, from: m.from, app: m.app, recipient: m.recipient, item: &it}
		back, err := decode(again.append(nil))
		if err != nil || back.from != m.from || back.app != m.app || back.recipient != m.recipient {
			t.Fatalf("%+v, %v", back, err)
		}
		if second, err := decodeItem(back.app, back.recipient, back.body); err != nil || second.Seq != it.Seq || second.Pos != it.Pos || second.N.ID != it.N.ID {
			t.Fatalf("%+v, %v", second, err)
		}
	})
}

func TestHashesDifferBetweenAppsAndRecipients(t *testing.T) {
	seen := map[uint64]bool{}
	for _, a := range []string{"a", "a.t", "at"} {
		for _, r := range []string{"b", "t.b", "tb", ""} {
			h := hashOf(a, r)
			if seen[h] || h == 0 || h != hashOf(a, r) {
				t.Errorf("%s/%s is %d", a, r, h)
			}
			seen[h] = true
		}
	}
}

// TestInterestIsSmall limits the memory that a recipient takes on its own node: its entry in interests, and the claims about it.
func TestInterestIsSmall(t *testing.T) {
	c, w := lone()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n, most = 100_000, 50
	before := used()
	for i := range n {
		c.want("demo", "recipient-"+strconv.Itoa(i))
	}
	c.tellTable()
	w.take()
	each := (used() - before) / n
	t.Logf("%d bytes a recipient", each)
	if each > most {
		t.Errorf("a recipient costs %d bytes, at most %d", each, most)
	}
	runtime.KeepAlive(c)
}
