package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store"
)

// contents is all data that stores return, as JSON by name.
type contents map[string]string

func (c contents) put(t testing.TB, v any, name ...any) {
	t.Helper()
	b, err := json.Marshal(v)
	noError(t, err)
	c[fmt.Sprint(name...)] = strings.ReplaceAll(string(b), ":null", ":[]") // nil and empty lists count as equal
}

// readStores reads all data of stores through the interfaces that the server uses.
func readStores(t testing.TB, s *store.Stores) contents {
	t.Helper()
	c := contents{}
	snap, err := s.Access.Load(t.Context())
	noError(t, err)
	slices.SortFunc(snap.Keys, func(a, b access.StoredKey) int { return cmp.Compare(a.ID, b.ID) })
	c.put(t, fmt.Sprintf("%+v", snap), "access")
	channels, err := s.Channels.All(t.Context())
	noError(t, err)
	slices.SortFunc(channels, func(a, b channel.Record) int { return cmp.Compare(a.App, b.App) })
	c.put(t, fmt.Sprintf("%+v", channels), "channels")
	hooks, err := s.Hooks.All(t.Context())
	noError(t, err)
	slices.SortFunc(hooks, func(a, b hook.Hook) int { return cmp.Compare(a.App, b.App) })
	c.put(t, hooks, "hooks")
	sources, err := s.Sources.All(t.Context())
	noError(t, err)
	slices.SortFunc(sources, func(a, b source.Source) int { return cmp.Compare(a.App, b.App) })
	c.put(t, sources, "sources")
	for _, one := range sources {
		c.put(t, map[string]json.RawMessage(one.Values), one.App, " values of sources")
		place := setting.Place{App: one.App, Name: one.Name}
		position, err := s.SourceRecords.Position(t.Context(), place)
		noError(t, err)
		aside, err := s.SourceRecords.Quarantine(t.Context(), place, 0, 10)
		noError(t, err)
		c.put(t, []any{position, aside}, one.App, " records of sources")
	}
	progress, err := s.Progress.HookProgress(t.Context(), "")
	noError(t, err)
	slices.SortFunc(progress, func(a, b hook.Progress) int { return cmp.Compare(a.App, b.App) })
	c.put(t, fmt.Sprintf("%+v", progress), "progress of hooks")
	for _, app := range appNames {
		templates, err := s.Templates.Templates(t.Context(), app, "", 10)
		noError(t, err)
		c.put(t, templates, app, " templates")
		evs, _, err := s.Events.Read(t.Context(), app, 0, 1000, false)
		noError(t, err)
		if len(evs) != 50 {
			t.Errorf("%d events of %s", len(evs), app)
		}
		c.put(t, evs, app, " events")
		readObjects(t, s, app, c)
		readMailboxes(t, s, app, c)
		readDigests(t, s, app, c)
		readCampaigns(t, s, app, c)
	}
	return c
}

func readObjects(t testing.TB, s *store.Stores, app string, c contents) {
	t.Helper()
	list, err := s.Objects.List(t.Context(), app, "north", "", "", 1000)
	noError(t, err)
	c.put(t, list, app, " objects")
	clients, err := s.Objects.Clients(t.Context(), app, "ada")
	noError(t, err)
	slices.SortFunc(clients, func(a, b objectstore.Saved) int { return cmp.Compare(a.ID.Device, b.ID.Device) })
	c.put(t, clients, app, " clients")
	watchers, _, err := s.Objects.Watchers(t.Context(), app, object.Key{Group: "north", Object: "o1"}, 0, 100)
	noError(t, err)
	c.put(t, watchers, app, " watchers")
}

func readMailboxes(t testing.TB, s *store.Stores, app string, c contents) {
	t.Helper()
	for cursor := ""; ; {
		list, next, err := s.Mailbox.Recipients(t.Context(), app, 1000, cursor)
		noError(t, err)
		for _, r := range list {
			c.put(t, r, app, " recipient ", r.Name)
			readMailbox(t, s.Mailbox, app, r.Name, c)
			page, err := s.Inboxes.Inbox(t.Context(), app, r.Name, inbox.Query{State: inbox.All, Limit: 100})
			noError(t, err)
			c.put(t, page, app, " inbox ", r.Name)
		}
		if cursor = next; next == "" {
			break
		}
	}
	for _, id := range []string{"plain", "alone", "all", "asks", "refused", "taken back", "s7"} {
		for _, to := range []string{"", "ada"} {
			records, err := s.Mailbox.Lookup(t.Context(), app, id, to)
			if err != nil {
				c.put(t, err.Error(), app, " lookup ", id, to)
				continue
			}
			slices.SortFunc(records, func(a, b mailbox.Record) int { return cmp.Compare(a.Pos, b.Pos) })
			for i := range records { // only nodes of several have names
				for j := range records[i].Tried {
					records[i].Tried[j].Node = ""
				}
			}
			c.put(t, records, app, " lookup ", id, to)
		}
	}
}

func readDigests(t testing.TB, s *store.Stores, app string, c contents) {
	t.Helper()
	list, err := s.Digests.Digests(t.Context(), app, "", false, "", 100)
	noError(t, err)
	c.put(t, list, app, " digests")
	for _, d := range list {
		one, items, err := s.Digests.Digest(t.Context(), app, d.ID)
		noError(t, err)
		c.put(t, []any{one, items}, app, " digest ", d.ID)
	}
	steps, _, err := s.Steps.StepsDue(t.Context(), nil, time.Now().Add(time.Hour), 1000)
	noError(t, err)
	slices.SortFunc(steps, func(a, b mailbox.StepDue) int { return cmp.Compare(a.Pos, b.Pos) })
	c.put(t, steps, "next steps")
}

func readMailbox(t testing.TB, m mailbox.Store, app, name string, c contents) {
	t.Helper()
	for _, device := range []string{"", "phone"} {
		res, err := m.Pending(t.Context(), []mailbox.PendingQuery{{App: app, Recipient: name, Device: device, Limit: 1000}})
		noError(t, err)
		for i := range res[0].Items {
			res[0].Items[i].Escalates = false // is of commits, not of reads
		}
		c.put(t, res, app, " pending ", name, device)
	}
	for cursor := int64(0); ; {
		items, next, err := m.History(t.Context(), app, name, 0, 1000, cursor)
		noError(t, err)
		c.put(t, items, app, " history ", name, cursor)
		if cursor = next; next == 0 {
			return
		}
	}
}

func readCampaigns(t testing.TB, s *store.Stores, app string, c contents) {
	t.Helper()
	list, _, _, err := s.Endpoints.ListEndpoints(t.Context(), app, "", &audience.Selection{}, 0, 1000)
	noError(t, err)
	c.put(t, list, app, " endpoints")
	tags, attributes, err := s.Endpoints.Names(t.Context(), app, 100)
	noError(t, err)
	c.put(t, [][]string{tags, attributes}, app, " names")
	active, disabled, err := s.Endpoints.EndpointCounts(t.Context(), app)
	noError(t, err)
	c.put(t, []any{active, disabled}, app, " counts")
	found, err := s.Campaigns.List(t.Context(), app, 10, 0)
	noError(t, err)
	c.put(t, found, app, " campaigns")
	for _, one := range found {
		f, err := s.Campaigns.Figures(t.Context(), one.Num)
		noError(t, err)
		c.put(t, f, app, " figures")
		rows, _, err := s.Campaigns.Deliveries(t.Context(), one.Num, nil, 1000, 0)
		noError(t, err)
		c.put(t, rows, app, " deliveries")
		days, err := s.Campaigns.Days(t.Context(), app, one.Num, time.Now().Add(-48*time.Hour), time.Now().Add(48*time.Hour))
		noError(t, err)
		c.put(t, days, app, " days")
	}
	key, err := s.Campaigns.TrackKey(t.Context(), app)
	noError(t, err)
	c.put(t, key, app, " track key")
}

// sameContents compares the contents of two stores.
func sameContents(t testing.TB, got, want contents) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		at := 0
		for at < min(len(g), len(w)) && g[at] == w[at] {
			at++
		}
		if from := max(0, at-200); g != w {
			t.Errorf("%s, from the character %d on:\n got %.800s\nwant %.800s", name, from, g[from:], w[from:])
		}
	}
	for name := range got {
		if _, there := want[name]; !there {
			t.Errorf("%s is new", name)
		}
	}
}
