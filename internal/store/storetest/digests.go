package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// digests is a store of digests with the clock of a test.
type digests struct {
	digest.Store
	*testing.T
	now time.Time
}

// Digests checks a store of digests that is empty.
func Digests(t *testing.T, s digest.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*digests)
	}{
		{"ItemsOfOneKeyJoin", joinDigests},
		{"FullDigestLeavesAtOnce", fullDigests},
		{"SameIDCountsOnce", digestsOnce},
		{"ExpiredItemsDoNotCount", digestsExpire},
		{"RecalledItemsAreTakenOut", digestsRecalled},
		{"NewerItemReplacesThatOfItsCollapseKey", digestsReplace},
		{"ErasedMeansErased", digestsErased},
		{"OpenDigestsOfARecipientAreBounded", digestsBounded},
		{"OldOnesAreDeleted", digestsPruned},
		{"ListsGoOnBelowACursor", digestsListed},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&digests{s, t, time.UnixMilli(1_800_000_000_000)})
			for _, app := range []string{"shop", "bank"} {
				if err := s.EraseApp(t.Context(), app); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// lot makes one that gathers for ten minutes.
func lot(app, id, key string, to ...string) *digest.Lot {
	return &digest.Lot{
		App: app, ID: id, To: to, Category: "comment", Key: key, Created: time.UnixMilli(1_800_000_000_000), Sum: []byte("sum"), Body: []byte("body of " + id),
		Window: 10 * time.Minute, Most: 100,
	}
}

// gather stores lots and returns the digests of the first recipients.
func (d *digests) gather(lots ...*digest.Lot) (of []string) {
	d.Helper()
	if err := d.Gather(d.Context(), lots, d.now); err != nil {
		d.Fatal(err)
	}
	for _, l := range lots {
		if err := l.Results[0].Err; err != nil {
			d.Fatalf("%s: %v", l.ID, err)
		}
		of = append(of, l.Results[0].Digest)
	}
	return of
}

// leave seals and ends all that is due, and returns the items of the digests that have left, by digest.
func (d *digests) leave() map[string][]string {
	d.Helper()
	due, _, err := d.Due(d.Context(), d.now, 1000)
	if err != nil {
		d.Fatal(err)
	}
	leaving, err := d.Seal(d.Context(), due, d.now)
	if err != nil {
		d.Fatal(err)
	}
	var refs []digest.Ref
	for i := range leaving {
		if len(leaving[i].Newest) > 0 {
			refs = append(refs, digest.Ref{App: leaving[i].App, ID: leaving[i].ID})
		}
	}
	items, err := d.End(d.Context(), refs, digest.Sent, d.now)
	if err != nil {
		d.Fatal(err)
	}
	left := make(map[string][]string)
	for i, r := range refs {
		left[r.ID] = items[i]
	}
	return left
}

// status returns that of an item, and its digest.
func (d *digests) status(app, id, to string) (notification.Status, string) {
	d.Helper()
	list, err := d.Lookup(d.Context(), app, id, to, d.now)
	if err != nil {
		d.Fatal(err)
	}
	if len(list) == 0 {
		return 0, ""
	}
	return list[0].Status, list[0].Digest.ID
}

func (d *digests) wantStatus(id string, want notification.Status) {
	d.Helper()
	if got, _ := d.status("shop", id, "ann"); got != want {
		d.Errorf("%s is %s, want %s", id, got, want)
	}
}

func joinDigests(d *digests) {
	of := d.gather(lot("shop", "1", "a", "ann"), lot("shop", "2", "a", "ann"), lot("shop", "3", "b", "ann"), lot("shop", "4", "a", "bob"), lot("bank", "1", "a", "ann"))
	other := lot("shop", "5", "a", "ann")
	other.Category = "like"
	of = append(of, d.gather(other)...)
	if of[0] != of[1] {
		d.Error("the second item of a key has not joined the first")
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(of))); len(distinct) != 5 {
		d.Errorf("six items of five keys are in %d digests", len(distinct))
	}
	due, next, err := d.Due(d.Context(), d.now, 10)
	if err != nil || len(due) != 0 || !next.Equal(d.now.Add(10*time.Minute)) {
		d.Fatalf("before its time %v is due, the next at %s, %v", due, next, err)
	}
	d.now = d.now.Add(9 * time.Minute)
	if late := d.gather(lot("shop", "6", "a", "ann")); late[0] != of[0] {
		d.Error("an item within the window has not joined")
	}
	d.now = d.now.Add(time.Minute)
	due, _, err = d.Due(d.Context(), d.now, 10)
	if err != nil || len(due) != 5 {
		d.Fatalf("%d digests are due, %v; want 5: the window counts from the first item", len(due), err)
	}
	leaving, err := d.Seal(d.Context(), due, d.now)
	if err != nil {
		d.Fatal(err)
	}
	for i := range leaving {
		l := &leaving[i]
		if l.ID != of[0] {
			continue
		}
		if l.Items != 3 || len(l.Newest) != 3 || l.Newest[0].ID != "6" || string(l.Newest[2].Body) != "body of 1" || l.To != "ann" || l.Key != "a" {
			d.Errorf("the digest is %+v", l)
		}
		if want := d.now.Add(notification.DefaultTTL); !l.Expires.Equal(want) {
			d.Errorf("it expires at %s, want a day after it leaves, %s", l.Expires, want)
		}
	}
	d.wantStatus("1", notification.Gathered)
	if after := d.gather(lot("shop", "7", "a", "ann")); after[0] == of[0] {
		d.Error("an item has joined a sealed digest")
	}
	if again, err := d.Seal(d.Context(), due, d.now); err != nil || len(again) != 5 {
		d.Errorf("a sender after a crash finds %d sealed digests, %v; want 5", len(again), err)
	}
	items, err := d.End(d.Context(), due, digest.Sent, d.now)
	if err != nil || len(items) != 5 {
		d.Fatal(items, err)
	}
	d.wantStatus("1", notification.Digested)
	if _, in := d.status("shop", "6", "ann"); in != of[0] {
		d.Errorf("the item went into %s, want %s", in, of[0])
	}
	if again, err := d.Seal(d.Context(), due, d.now); err != nil || len(again) != 0 {
		d.Errorf("%d digests leave twice, %v", len(again), err)
	}
	got, ids, err := d.Digest(d.Context(), "shop", of[0])
	if err != nil || got.State != digest.Sent || got.Items != 3 || !slices.Equal(ids, []string{"1", "2", "6"}) {
		d.Errorf("the digest that left is %+v with %v, %v", got, ids, err)
	}
	if _, _, err := d.Digest(d.Context(), "bank", of[0]); !errors.Is(err, mailbox.ErrNotFound) {
		d.Errorf("another app's digest: %v", err)
	}
}

func fullDigests(d *digests) {
	var all []*digest.Lot
	for i := range 7 {
		l := lot("shop", fmt.Sprint(i), "a", "ann")
		l.Most = 3
		all = append(all, l)
	}
	of := d.gather(all...)
	if of[0] != of[2] || of[2] == of[3] || of[3] != of[5] || of[5] == of[6] {
		d.Errorf("seven items of digests of three are in %v", of)
	}
	if !all[2].Results[0].Due || all[1].Results[0].Due {
		d.Error("the third item must make the digest due, and no other")
	}
	left := d.leave()
	if len(left) != 2 || len(left[of[0]]) != 3 || len(left[of[3]]) != 3 {
		d.Errorf("left at once: %v", left)
	}
	large := lot("shop", "large", "b", "ann")
	large.Body = make([]byte, digest.MaxBytes/2)
	second := lot("shop", "larger", "b", "ann")
	second.Body = large.Body
	if d.gather(large, second); !second.Results[0].Due {
		d.Error("a digest with too many bytes does not leave at once")
	}
}

func digestsOnce(d *digests) {
	first, again := lot("shop", "1", "a", "ann", "bob"), lot("shop", "1", "a", "ann", "eve")
	d.gather(first, again)
	if r := again.Results; !r[0].Duplicate || r[0].Status != notification.Gathered || r[1].Duplicate || r[1].Digest == "" {
		d.Errorf("the repeated publish is %+v", r)
	}
	conflict := lot("shop", "1", "a", "ann")
	conflict.Sum = []byte("other")
	if err := d.Gather(d.Context(), []*digest.Lot{conflict}, d.now); err != nil || !errors.Is(conflict.Results[0].Err, mailbox.ErrConflict) {
		d.Errorf("another content with the same id: %v, %v", err, conflict.Results[0].Err)
	}
	known, refused := lot("shop", "1", "", "ann", "zoe"), lot("shop", "9", "a", "ann")
	known.Known, refused.Refused = true, errors.New("refused")
	if err := d.Gather(d.Context(), []*digest.Lot{known, refused}, d.now); err != nil {
		d.Fatal(err)
	}
	if r := known.Results; !r[0].Duplicate || r[0].Absent || !r[1].Absent {
		d.Errorf("a publish that goes around the digest is %+v", r)
	}
	if !errors.Is(refused.Results[0].Err, refused.Refused) {
		d.Errorf("a refused one: %v", refused.Results[0].Err)
	}
	d.now = d.now.Add(10 * time.Minute)
	for of, items := range d.leave() {
		if len(items) != 1 {
			d.Errorf("digest %s has %v", of, items)
		}
	}
	d.now = d.now.Add(notification.DedupWindow - time.Second)
	if d.gather(again); !again.Results[0].Duplicate || again.Results[0].Status != notification.Digested {
		d.Errorf("within a day the id is free: %+v", again.Results[0])
	}
	d.now = d.now.Add(2 * time.Second)
	if d.gather(again); again.Results[0].Duplicate {
		d.Errorf("after a day the id is not free: %+v", again.Results[0])
	}
}

func digestsExpire(d *digests) {
	soon, only := lot("shop", "soon", "a", "ann"), lot("shop", "only", "b", "ann")
	soon.Expires, only.Expires = d.now.Add(time.Minute), d.now.Add(time.Minute)
	of := d.gather(soon, lot("shop", "1", "a", "ann"), lot("shop", "2", "a", "ann"), only)
	d.now = d.now.Add(5 * time.Minute)
	d.wantStatus("soon", notification.Expired)
	full := lot("shop", "3", "a", "ann")
	full.Most = 4 // three that wait, and one that has expired
	if d.gather(full); full.Results[0].Due || !slices.Equal(full.Results[0].Expired, []string{"soon"}) {
		d.Errorf("an expired item counts: %+v", full.Results[0])
	}
	d.now = d.now.Add(5 * time.Minute)
	if left := d.leave(); len(left) != 1 || !slices.Equal(left[of[0]], []string{"1", "2", "3"}) {
		d.Errorf("left: %v", left)
	}
	d.wantStatus("soon", notification.Expired)
	d.wantStatus("only", notification.Expired)
	if waiting, err := d.Waiting(d.Context()); err != nil || len(waiting) != 0 {
		d.Errorf("an empty digest waits: %v, %v", waiting, err)
	}
}

func digestsRecalled(d *digests) {
	of := d.gather(lot("shop", "1", "a", "ann", "bob"), lot("shop", "2", "a", "ann"))
	recall := func(id, to string, want ...string) {
		d.Helper()
		got, found, err := d.Recall(d.Context(), "shop", id, to, d.now)
		if slices.Sort(got); err != nil || !found || !slices.Equal(got, want) {
			d.Errorf("recall of %s: %v, %v, %v; want %v", id, got, found, err, want)
		}
	}
	recall("1", "", "ann", "bob")
	recall("1", "")
	d.wantStatus("1", notification.Recalled)
	if _, found, err := d.Recall(d.Context(), "shop", "none", "", d.now); found || err != nil {
		d.Errorf("recall of nothing: %v, %v", found, err)
	}
	if waiting, err := d.Waiting(d.Context()); err != nil || waiting["shop"] != (digest.Count{Digests: 1, Items: 1}) {
		d.Errorf("waiting: %v, %v; bob's digest is empty", waiting, err)
	}
	d.now = d.now.Add(10 * time.Minute)
	due, _, _ := d.Due(d.Context(), d.now, 10)
	if _, err := d.Seal(d.Context(), due, d.now); err != nil {
		d.Fatal(err)
	}
	recall("2", "ann")
	if left := d.leave(); !slices.Equal(left[of[1]], []string{"2"}) {
		d.Errorf("left: %v", left)
	}
}

func digestsReplace(d *digests) {
	old, next := lot("shop", "old", "a", "ann"), lot("shop", "new", "a", "ann")
	old.Collapse, next.Collapse = "progress", "progress"
	of := d.gather(lot("shop", "1", "a", "ann"), old, next)
	if !slices.Equal(next.Results[0].Replaced, []string{"old"}) {
		d.Errorf("replaced: %v", next.Results[0].Replaced)
	}
	d.wantStatus("old", notification.Replaced)
	d.now = d.now.Add(10 * time.Minute)
	if left := d.leave(); !slices.Equal(left[of[0]], []string{"1", "new"}) {
		d.Errorf("left: %v", left)
	}
}

func digestsErased(d *digests) {
	of := d.gather(lot("shop", "1", "a", "ann", "bob"), lot("shop", "2", "b", "ann"), lot("bank", "1", "a", "ann"))
	d.now = d.now.Add(10 * time.Minute)
	if _, err := d.Seal(d.Context(), []digest.Ref{{App: "shop", ID: of[0]}}, d.now); err != nil {
		d.Fatal(err)
	}
	if n, err := d.EraseRecipient(d.Context(), "shop", "ann"); err != nil || n != 2 {
		d.Fatalf("erased %d, %v", n, err)
	}
	if items, err := d.End(d.Context(), []digest.Ref{{App: "shop", ID: of[0]}}, digest.Sent, d.now); err != nil || items[0] != nil {
		d.Errorf("an erased digest ends with %v, %v", items, err)
	}
	if status, _ := d.status("shop", "1", "ann"); status != 0 {
		d.Errorf("an erased item is %s", status)
	}
	if apps, err := d.Apps(d.Context()); err != nil || !slices.Equal(apps, []string{"bank", "shop"}) {
		d.Errorf("apps: %v, %v", apps, err)
	}
	left := d.leave()
	if len(left) != 2 {
		d.Errorf("left: %v; want bob's and that of the other app", left)
	}
	if err := d.EraseApp(d.Context(), "shop"); err != nil {
		d.Fatal(err)
	}
	if status, _ := d.status("shop", "1", "bob"); status != 0 {
		d.Errorf("an item of an erased app is %s", status)
	}
	if status, _ := d.status("bank", "1", "ann"); status != notification.Digested {
		d.Errorf("the other app's item is %s", status)
	}
}

func digestsBounded(d *digests) {
	for i := range digest.MaxOpen {
		d.gather(lot("shop", fmt.Sprint(i), fmt.Sprint("key", i), "ann"))
	}
	more, joins, other := lot("shop", "more", "more", "ann"), lot("shop", "joins", "key7", "ann"), lot("shop", "other", "more", "bob")
	if err := d.Gather(d.Context(), []*digest.Lot{more, joins, other}, d.now); err != nil {
		d.Fatal(err)
	}
	if !errors.Is(more.Results[0].Err, mailbox.ErrFull) || joins.Results[0].Err != nil || other.Results[0].Err != nil {
		d.Errorf("one key more: %v, one that joins: %v, of another recipient: %v", more.Results[0].Err, joins.Results[0].Err, other.Results[0].Err)
	}
	if status, _ := d.status("shop", "more", "ann"); status != 0 {
		d.Errorf("a refused item is %s", status)
	}
}

func digestsPruned(d *digests) {
	d.gather(lot("shop", "old", "a", "ann"))
	d.now = d.now.Add(10 * time.Minute)
	d.leave()
	d.gather(lot("shop", "waits", "a", "ann"))
	if more, err := d.Prune(d.Context(), d.now); more || err != nil {
		d.Fatal(more, err)
	}
	d.wantStatus("old", notification.Digested)
	if more, err := d.Prune(d.Context(), d.now.Add(time.Millisecond)); more || err != nil {
		d.Fatal(more, err)
	}
	d.wantStatus("old", 0)
	d.wantStatus("waits", notification.Gathered)
	list, err := d.Digests(d.Context(), "shop", "", false, "", 10)
	if err != nil || len(list) != 1 || list[0].State != digest.Open {
		d.Errorf("digests: %+v, %v", list, err)
	}
}

func digestsListed(d *digests) {
	for i := range 5 {
		d.gather(lot("shop", fmt.Sprint(i), fmt.Sprint(i), "ann"), lot("shop", fmt.Sprint(i), "", "bob"))
	}
	var keys []string
	for before := ""; ; {
		list, err := d.Digests(d.Context(), "shop", "ann", true, before, 2)
		if err != nil {
			d.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, one := range list {
			keys = append(keys, one.Key)
		}
		before = list[len(list)-1].ID
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"0", "1", "2", "3", "4"}) {
		d.Errorf("the pages have %v", keys)
	}
	if list, err := d.Digests(d.Context(), "shop", "", false, "", 100); err != nil || len(list) != 6 || list[0].ID < list[5].ID {
		d.Errorf("all: %v, %v", list, err)
	}
}

// DigestsTogether checks that each item is in exactly one digest, however many publishers and senders use the stores at the same time. The
// stores share a database.
func DigestsTogether(t *testing.T, items int, stores ...digest.Store) {
	t.Helper()
	const publishers, keys = 6, 8
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	var mu sync.Mutex
	in := make(map[string]string) // digest by item
	left := make(map[string]int)  // items by digest
	var senders, publishing sync.WaitGroup
	for n, s := range stores {
		for range 2 { // as if the lease had two owners for a moment
			senders.Go(func() {
				for {
					over := ctx.Err() != nil
					now := time.Now().Add(time.Hour) // all that is open is due
					due, _, err := s.Due(t.Context(), now, 10)
					if err != nil {
						t.Error(err)
						return
					}
					if len(due) == 0 && over {
						return
					}
					if _, err := s.Seal(t.Context(), due, start); err != nil {
						t.Error(err)
						return
					}
					ended, err := s.End(t.Context(), due, digest.Sent, time.Now())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i := range ended {
						left[due[i].ID] += len(ended[i])
					}
					mu.Unlock()
				}
			})
		}
		for p := range publishers {
			publishing.Go(func() {
				for i := range items / publishers / len(stores) {
					l := lot("shop", fmt.Sprintf("%d-%d-%d", n, p, i), fmt.Sprint(i%keys), "ann", "bob", "eve")
					l.Created, l.Most = start, 7
					if err := s.Gather(t.Context(), []*digest.Lot{l}, start); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for k, to := range l.To {
						in[to+" "+l.ID] = l.Results[k].Digest
					}
					mu.Unlock()
				}
			})
		}
	}
	publishing.Wait()
	cancel()
	senders.Wait()
	want := make(map[string]int)
	for item, of := range in {
		if of == "" {
			t.Fatalf("%s is in no digest", item)
		}
		want[of]++
	}
	if len(in) < items/2 || !maps.Equal(want, left) {
		t.Errorf("%d items in %d digests by their publishes, %d digests have left; the counts differ", len(in), len(want), len(left))
	}
	for of, n := range want {
		if d, ids, err := stores[0].Digest(t.Context(), "shop", of); err != nil || d.State != digest.Sent || d.Items != n || len(ids) != n || n > 7 {
			t.Errorf("digest %s is %+v with %d items, %v; want %d", of, d, len(ids), err, n)
		}
	}
}
