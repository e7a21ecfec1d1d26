package faults

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"godwit.dev/godwit/bench/stubs"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/testkit/thorough"
)

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The test's apps have recipients, objects and endpoints with the same names.
var appNames = []string{"blue", "red"}

// manyStubs returns how many settled and how many pending notifications a long copy has besides all other data. GODWIT_MIGRATE_STUBS sets
// the number of settled ones, and then 10,000 are pending, which take minutes to read.
func manyStubs(t testing.TB) (stubs, open int) {
	t.Helper()
	if s := os.Getenv("GODWIT_MIGRATE_STUBS"); s != "" {
		n, err := strconv.Atoi(s)
		noError(t, err)
		return n, 10_000
	}
	return thorough.Rounds(12_000, 30_000), 500
}

// filledLong is filled with many more notifications.
func filledLong(t testing.TB, settled, open int) (data string) {
	t.Helper()
	data = t.TempDir()
	noError(t, stubs.Fill(t.Context(), filepath.Join(data, store.MailboxFile), appNames[0], settled-1000))
	fillFolder(t, data, 1000)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	noError(t, err)
	for from := 0; from < open; from += 500 {
		var list []*mailbox.Append
		for i := from; i < from+500; i++ {
			list = append(list, &mailbox.Append{N: note(appNames[0], fmt.Sprint("w", i), nil), To: []string{fmt.Sprint("r", i%100)}})
		}
		noError(t, s.Mailbox.Append(t.Context(), list))
	}
	noError(t, s.Close())
	return data
}

// filled creates a data folder with data of every kind.
func filled(t testing.TB, stubs int) (data string) {
	t.Helper()
	data = t.TempDir()
	fillFolder(t, data, stubs)
	return data
}

func fillFolder(t testing.TB, data string, stubs int) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Data: data})
	noError(t, err)
	fillStores(t, s, stubs)
	noError(t, s.Close())
}

func fillStores(t testing.TB, s *store.Stores, stubs int) {
	t.Helper()
	for _, app := range appNames {
		fillApp(t, s, app)
		fillObjects(t, s, app)
		fillMailboxes(t, s, app)
		fillDigests(t, s, app)
		fillStubs(t, s, app, stubs/len(appNames))
		fillCampaigns(t, s, app)
		fillEvents(t, s, app)
	}
}

func fillApp(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	now := time.Now()
	noError(t, s.Access.CreateApp(t.Context(), access.App{Name: app, CreatedAt: now, Origins: []string{"https://" + app + ".example.org"}}))
	noError(t, s.Access.CreateKey(t.Context(), access.StoredKey{
		Key: access.Key{App: app, ID: "key-" + app, Name: "for tests", Roles: access.Publish, CreatedAt: now}, Hash: sha256.Sum256([]byte(app)),
	}))
	noError(t, s.Channels.Update(t.Context(), app, string(push.Telegram), func(r *channel.Record, _ int) error {
		r.Values, r.Enabled, r.UpdatedAt = channel.Values{"token": "12:ab" + app}, app == "red", now
		return nil
	}))
	noError(t, s.Hooks.Update(t.Context(), app, "orders", func(h *hook.Hook, _ int) error {
		h.URL, h.CreatedAt, h.UpdatedAt = "https://example.org/"+app, now, now
		return nil
	}))
	noError(t, s.Templates.UpdateTemplate(t.Context(), app, "welcome", func(one *template.Template, _ int) error {
		one.Revision, one.CreatedAt, one.UpdatedAt = 7, now, now
		one.Content = template.Content{Content: push.Content{Title: "Hi {{name}}"}, Language: "en", Locales: map[string]template.Variant{"de": {Title: "Hallo " + app}}}
		return nil
	}))
	noError(t, s.Segments.Update(t.Context(), app, "vip", func(one *segment.Segment, _ int) error {
		one.Where, one.Description, one.CreatedAt, one.UpdatedAt = `city = "`+app+`"`, "Who lives in "+app, now, now
		return nil
	}))
	noError(t, s.Sources.Update(t.Context(), app, streams.Name, func(one *source.Source, _ int) error {
		one.Values, one.CreatedAt, one.UpdatedAt = setting.Values{"urls": []byte(`["redis://` + app + `"]`), "password": []byte(`"sekret"`)}, now, now
		return nil
	}))
	place := setting.Place{App: app, Name: streams.Name}
	noError(t, s.SourceRecords.Note(t.Context(), place, []byte(`{"at":"`+app+`"}`)))
	noError(t, s.SourceRecords.SetAside(t.Context(), place, []source.SetAside{{At: now, From: "5-0", Why: "no title", Text: []byte("x")}}))
}

func fillObjects(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	var puts []*objectstore.Put
	for i := range 30 {
		p := &objectstore.Put{App: app, Key: object.Key{Group: "north", Object: fmt.Sprint("o", i)}, At: time.Now()}
		p.Version, p.Payload, p.ContentType = object.Version(i+1), []byte(fmt.Sprintf("\x00%d", i)), "application/octet-stream"
		if i%10 == 9 {
			p.Unknown, p.Payload, p.ContentType = true, nil, ""
		}
		puts = append(puts, p)
	}
	noError(t, s.Objects.Put(t.Context(), puts))
	for i := range 3 {
		done := make(chan error, 1)
		k := object.Key{Group: "north", Object: fmt.Sprint("o", i)}
		s.Objects.Save(&objectstore.Save{
			ID: objectstore.ClientID{App: app, Recipient: "ada", Group: "north", Device: fmt.Sprint("d", i)}, Keys: []object.Key{k}, SeenAt: time.Now(),
			Progress: []objectstore.Progress{{Object: k.Hash(), Acked: 1, Sent: 2}}, Done: func(err error) { done <- err },
		})
		noError(t, <-done)
	}
}

func note(app, id string, change func(*notification.Notification)) *notification.Notification {
	now := time.Now()
	n := &notification.Notification{
		App: app, ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Content: notification.Content{Title: "T " + id, Body: "B", Category: "C", Data: []byte(`{"k":1}`), ContentType: "application/json"},
	}
	if change != nil {
		change(n)
	}
	return n
}

func appendTo(t testing.TB, s mailbox.Store, n *notification.Notification, to ...string) {
	t.Helper()
	a := &mailbox.Append{N: n, To: to}
	noError(t, s.Append(t.Context(), []*mailbox.Append{a}))
	for _, r := range a.Results {
		noError(t, r.Err)
	}
}

func settle(t testing.TB, s mailbox.Store, list ...*mailbox.Settle) {
	t.Helper()
	for _, q := range list {
		q.At = time.Now()
	}
	noError(t, s.Settle(t.Context(), list))
}

// fillMailboxes creates a copy of every kind in the mailboxes of two recipients.
func fillMailboxes(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	m := s.Mailbox
	later := time.Now().Add(30 * time.Minute)
	appendTo(t, m, note(app, "plain", nil), "ada", "bob")
	appendTo(t, m, note(app, "alone", nil), "ada")
	appendTo(t, m, note(app, "high", func(n *notification.Notification) { n.Priority = notification.High }), "ada")
	appendTo(t, m, note(app, "low", func(n *notification.Notification) { n.Priority = notification.Low }), "bob")
	appendTo(t, m, note(app, "later", func(n *notification.Notification) { n.SendAt = later }), "ada", "bob")
	appendTo(t, m, note(app, "place", func(n *notification.Notification) { n.CollapseKey = "where" }), "ada")
	appendTo(t, m, note(app, "place2", func(n *notification.Notification) { n.CollapseKey = "where" }), "ada")
	appendTo(t, m, note(app, "all", func(n *notification.Notification) { n.Ack = notification.AckAll }), "ada")
	appendTo(t, m, note(app, "asks", func(n *notification.Notification) { n.ReplyBy = n.ExpiresAt }), "ada", "bob")
	appendTo(t, m, note(app, "refused", nil), "ada")
	appendTo(t, m, note(app, "taken back", nil), "bob")
	appendTo(t, m, note(app, "kept", func(n *notification.Notification) { n.Content.Inbox = &notification.Inbox{Keep: 24 * time.Hour} }), "ada", "bob")
	appendTo(t, m, note(app, "steps", func(n *notification.Notification) {
		n.Steps = []notification.Step{{Channel: "webhook", After: time.Minute}}
	}), "ada", "bob")
	m.Seen([]mailbox.Seen{{App: app, Recipient: "ada", Device: "phone", At: time.Now()}, {App: app, Recipient: "ada", Device: "watch", At: time.Now()}})
	settle(t, m,
		&mailbox.Settle{App: app, Recipient: "ada", ID: "alone", As: notification.Acked, DeliveredAt: time.Now(), Attempts: 2},
		&mailbox.Settle{App: app, Recipient: "ada", ID: "all", As: notification.Acked, Device: "phone", Online: []string{"phone", "watch"}},
		&mailbox.Settle{App: app, Recipient: "ada", ID: "asks", As: notification.Replied, Reply: &notification.Reply{Status: 200, ContentType: "text/plain", Data: []byte("yes")}},
		&mailbox.Settle{App: app, Recipient: "ada", ID: "refused", Nack: true, As: notification.Failed, Reason: "not now"},
		&mailbox.Settle{App: app, Recipient: "bob", ID: "taken back", As: notification.Recalled},
	)
	// This notification was written to a connection and is not acknowledged.
	res, err := m.Pending(t.Context(), []mailbox.PendingQuery{{App: app, Recipient: "bob", Limit: 10}})
	noError(t, err)
	m.Mark([]mailbox.Mark{{App: app, Recipient: "bob", Pos: res[0].Items[0].Pos, DeliveredAt: time.Now(), Attempts: 3}})
}

// fillDigests gathers notifications in digests. One digest has left.
func fillDigests(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	now := time.Now()
	lot := func(id, category string) *digest.Lot {
		return &digest.Lot{App: app, ID: id, To: []string{"ada", "bob"}, Category: category, Created: now, Sum: []byte(id), Body: []byte("body of " + id), Window: time.Hour, Most: 100}
	}
	noError(t, s.Digests.Gather(t.Context(), []*digest.Lot{lot("d1", "NEWS"), lot("d2", "NEWS"), lot("d3", "LIKES")}, now))
	due, _, err := s.Digests.Due(t.Context(), now.Add(2*time.Hour), 1)
	noError(t, err)
	_, err = s.Digests.Seal(t.Context(), due, now)
	noError(t, err)
	_, err = s.Digests.End(t.Context(), due, digest.Sent, now)
	noError(t, err)
}

// fillStubs settles many notifications of recipients r0 to r99.
func fillStubs(t testing.TB, s *store.Stores, app string, n int) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		var list []*mailbox.Append
		var ends []*mailbox.Settle
		for i := from; i < min(n, from+500); i++ {
			id, to := fmt.Sprint("s", i), fmt.Sprint("r", i%100)
			list = append(list, &mailbox.Append{N: note(app, id, nil), To: []string{to}})
			ends = append(ends, &mailbox.Settle{App: app, Recipient: to, ID: id, As: notification.Acked})
		}
		noError(t, s.Mailbox.Append(t.Context(), list))
		settle(t, s.Mailbox, ends...)
	}
}

func fillCampaigns(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	var regs []audience.Registration
	for i := range 40 {
		ep := audience.Endpoint{
			ID: audience.NewUUID(), App: app, Channel: push.Webhook, Recipient: fmt.Sprint("r", i%3), Address: json.RawMessage(fmt.Sprintf(`{"url":"https://example.org/%d"}`, i)),
			Tags: []string{"all", fmt.Sprint("t", i%4)}, Attributes: audience.Attributes{"age": audience.Number(float64(i)), "city": audience.Text("Oslo"), "ok": audience.Bool(true)},
		}
		noError(t, ep.Check())
		regs = append(regs, audience.Registration{Endpoint: ep, Trusted: true})
	}
	made, err := s.Endpoints.Register(t.Context(), app, regs)
	noError(t, err)
	noError(t, s.Endpoints.DisableEndpoint(t.Context(), made[0].Endpoint.Number, "gone"))
	c := &campaign.Campaign{
		ID: "campaign-" + app, App: app, State: campaign.Running, Channels: []push.Channel{push.Webhook}, CreatedAt: time.Now(), StartedAt: time.Now(),
		Spec: campaign.Spec{Name: "News", Content: campaign.Content{Content: push.Content{Title: "Hi"}}},
	}
	_, err = s.Campaigns.Insert(t.Context(), c, "once", [32]byte{1})
	noError(t, err)
	epoch, err := s.Campaigns.Own(t.Context(), app)
	noError(t, err)
	_, _, err = s.Campaigns.Enumerate(t.Context(), epoch, c.Num, 20, func(*campaign.Target) campaign.Place { return campaign.Place{Due: time.Now()} })
	noError(t, err)
	due, err := s.Campaigns.Due(t.Context(), c.Num, push.Webhook, time.Now(), 4)
	noError(t, err)
	claimed, err := s.Campaigns.Claim(t.Context(), epoch, c.Num, due, time.Now())
	noError(t, err)
	noError(t, s.Campaigns.Finish(t.Context(), epoch, c.Num, []campaign.Result{{Row: claimed[0].Row, Channel: push.Webhook, Outcome: campaign.Accepted, External: "x1"}}, time.Now()))
	_, err = s.Campaigns.TrackKey(t.Context(), app)
	noError(t, err)
}

// fillEvents emits events of both apps in turn, so that the ids of one have gaps.
func fillEvents(t testing.TB, s *store.Stores, app string) {
	t.Helper()
	const emitted = 50
	for i := range emitted {
		s.Events.Emit([]event.Event{
			{App: app, Type: event.Stored, Note: fmt.Sprint("n", i), To: "ada", At: time.Now()},
			{App: "other", Type: event.Stored, Note: fmt.Sprint("n", i), To: "ada", At: time.Now()},
		})
	}
	last := uint64(0)
	for n := 0; n < emitted; {
		evs, _, err := s.Events.Read(t.Context(), app, last, 1000, true)
		noError(t, err)
		n, last = n+len(evs), evs[len(evs)-1].ID
	}
	epoch, _, err := s.Progress.OwnHookProgress(t.Context(), app)
	noError(t, err)
	_, err = s.Progress.SaveHookProgress(t.Context(), []hook.Saving{{App: app, Epoch: epoch, Save: []hook.Progress{{App: app, Name: "orders", Cursor: last - 20, Delivered: 7}}}})
	noError(t, err)
}
