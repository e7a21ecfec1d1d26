package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// keptItem is an item of the model.
type keptItem struct {
	id, category, key    string
	seen, read, archived bool
}

// inboxModel does random work on the inboxes of a few recipients, and compares them with lists.
func inboxModel(e *env) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0)) // no secret
	e.Logf("seed %d", seed)
	model := map[string][]keptItem{}
	names := []string{"r", "s", "t"}
	for i := range 400 {
		to := names[r.IntN(len(names))]
		list := model[to]
		switch r.IntN(10) {
		default:
			publishKept(e, r, model, fmt.Sprint("n", i), names)
		case 0, 1:
			if len(list) > 0 {
				it := &list[r.IntN(len(list))]
				it.read = r.IntN(4) > 0
				it.seen = true
				e.mark(to, inbox.Mark{ID: it.id, Read: ptr(it.read), Seen: yes})
			}
		case 2:
			for i := range list {
				if !list[i].archived {
					list[i].seen = true
				}
			}
			e.mark(to, inbox.Mark{Seen: yes})
		case 3:
			if len(list) > 0 {
				it := &list[r.IntN(len(list))]
				it.archived = !it.archived
				it.seen = it.seen || it.archived
				e.mark(to, inbox.Mark{ID: it.id, Archived: ptr(it.archived)})
			}
		case 4:
			if len(list) > 0 {
				id := list[r.IntN(len(list))].id
				model[to] = slices.DeleteFunc(list, func(it keptItem) bool { return it.id == id })
				if n, err := e.inboxes().LeaveInbox(e.Context(), App, id, []string{to}); err != nil || n != 1 {
					e.Fatalf("withdraw %s from %s: %d, %v", id, to, n, err)
				}
			}
		}
		if r.IntN(100) == 0 {
			e.reopen()
		}
	}
	for _, to := range names {
		compareInbox(e, to, model[to])
	}
	e.checked()
}

func publishKept(e *env, r *rand.Rand, model map[string][]keptItem, id string, names []string) {
	to := slices.Clone(names[:1+r.IntN(len(names))])
	it := keptItem{id: id, category: fmt.Sprint("c", r.IntN(3))}
	changes := []change{kept(month), category(it.category), ack(notification.AckNone)}
	if r.IntN(5) == 0 {
		it.key = fmt.Sprint("k", r.IntN(3))
		changes = append(changes, collapse(it.key))
	}
	e.stored(e.note(id, changes...), to...)
	for _, name := range to {
		model[name] = append(slices.DeleteFunc(model[name], func(old keptItem) bool { return it.key != "" && old.key == it.key }), it)
		e.ends(name, id, notification.Delivered, mailbox.SettleDone)
	}
}

func compareInbox(e *env, to string, list []keptItem) {
	e.Helper()
	counts := map[string]inbox.Count{}
	byState := map[inbox.State][]string{}
	for _, it := range slices.Backward(list) {
		c := counts[it.category]
		for s, is := range map[inbox.State]bool{
			inbox.All: !it.archived, inbox.Unseen: !it.archived && !it.seen, inbox.Unread: !it.archived && !it.read, inbox.Archived: it.archived,
		} {
			if is {
				byState[s] = append(byState[s], it.id)
			}
		}
		if !it.archived && !it.seen {
			c.Unseen++
		}
		if !it.archived && !it.read {
			c.Unread++
		}
		counts[it.category] = c
	}
	for _, s := range []inbox.State{inbox.All, inbox.Unseen, inbox.Unread, inbox.Archived} {
		e.wantInbox(to, s, byState[s]...)
	}
	if got := e.inbox(to, inbox.Query{}).Categories; !maps.Equal(got, counts) {
		e.Fatalf("counts of %s: %v, want %v", to, got, counts)
	}
}
