package storetest

import (
	"fmt"
	"reflect"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
)

var entryCases = map[string]func(e *appEnv){
	"EntriesAreKeptAndFound":          entriesKept,
	"EntriesOfAppsAreApart":           entriesApart,
	"EntriesAreTrimmedByAgeAndNumber": entriesTrimmed,
	"EntriesForgetAName":              entriesRenamed,
}

// entry adds and returns the nth audit entry of an app.
func (e *appEnv) entry(app string, n int) audit.Entry {
	e.Helper()
	d := audit.Entry{
		App: app, At: signedInAt.Add(time.Duration(n) * time.Minute), By: []string{"anna", "bo"}[n%2], Way: audit.Page, Address: "192.0.2.1",
		Action: []string{"campaign.start", "key.delete", "object.delete"}[n%3], Object: fmt.Sprint("nr/", n, " <b>ü"), Outcome: audit.Done,
	}
	e.ok(e.s.AddEntry(e.Context(), &d))
	return d
}

// finds checks which entries of an app a filter finds, newest first.
func (e *appEnv) finds(app string, f audit.Filter, limit int, want ...audit.Entry) {
	e.Helper()
	got, err := e.s.Entries(e.Context(), app, f, limit)
	if len(got) == 0 && len(want) == 0 {
		got, want = nil, nil
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		e.Errorf("%+v finds %+v, %v; want %+v", f, got, err, want)
	}
}

func entriesKept(e *appEnv) {
	e.app("shop")
	var d []audit.Entry
	for n := range 6 {
		d = append(d, e.entry("shop", n))
		if n > 0 && d[n].ID <= d[n-1].ID {
			e.Errorf("ids do not grow: %d, %d", d[n-1].ID, d[n].ID)
		}
	}
	e.s = e.reopen()
	at := func(n int) time.Time { return d[n].At }
	e.finds("shop", audit.Filter{}, 10, d[5], d[4], d[3], d[2], d[1], d[0])
	e.finds("shop", audit.Filter{}, 2, d[5], d[4])
	e.finds("shop", audit.Filter{Before: d[4].ID}, 2, d[3], d[2])
	e.finds("shop", audit.Filter{Since: at(2), Until: at(4)}, 10, d[3], d[2])
	e.finds("shop", audit.Filter{Action: "key.delete"}, 10, d[4], d[1])
	e.finds("shop", audit.Filter{By: "anna"}, 10, d[4], d[2], d[0])
	e.finds("shop", audit.Filter{By: "anna", Action: "key.delete", Since: at(2)}, 10, d[4])
	e.finds("shop", audit.Filter{By: "an"}, 10)
}

func entriesApart(e *appEnv) {
	e.app("a")
	e.app("b")
	one, other := e.entry("a", 1), e.entry("b", 2)
	e.finds("a", audit.Filter{}, 10, one)
	e.finds("b", audit.Filter{}, 10, other)
	e.fails(map[string]struct{ err, want error }{"entry of no app": {e.s.AddEntry(e.Context(), &audit.Entry{App: "c"}), access.ErrUnknownApp}})
	e.ok(e.s.DeleteApp(e.Context(), "a", nil))
	e.app("a")
	e.finds("a", audit.Filter{}, 10)
	e.finds("b", audit.Filter{}, 10, other)
}

func entriesTrimmed(e *appEnv) {
	ctx := e.Context()
	e.app("a")
	e.app("b")
	other := e.entry("b", 0)
	var d []audit.Entry
	for n := range 6 {
		d = append(d, e.entry("a", n))
	}
	e.ok(e.s.TrimEntries(ctx, "a", d[2].At, 10))
	e.finds("a", audit.Filter{}, 10, d[5], d[4], d[3], d[2])
	e.ok(e.s.TrimEntries(ctx, "a", time.Time{}, 4))
	e.finds("a", audit.Filter{}, 10, d[5], d[4], d[3], d[2])
	e.ok(e.s.TrimEntries(ctx, "a", time.Time{}, 2))
	e.finds("a", audit.Filter{}, 10, d[5], d[4])
	e.finds("b", audit.Filter{}, 10, other)
}

func entriesRenamed(e *appEnv) {
	e.app("shop")
	e.app("other")
	var want []audit.Entry
	for _, d := range []audit.Entry{
		{App: "shop", Action: "recipient.disconnect", Object: "anna"},
		{App: "shop", Action: "recipient.disconnect", Object: "annabel"},
		{App: "shop", Action: "template.set", Object: "anna"},
	} {
		d.At, d.By, d.Way, d.Outcome = signedInAt, "bo", audit.Page, audit.Done
		e.ok(e.s.AddEntry(e.Context(), &d))
		want = append(want, d)
	}
	e.ok(e.s.RenameObject(e.Context(), "other", "recipient.", "anna", "x"))
	e.ok(e.s.RenameObject(e.Context(), "shop", "recipient.", "anna", "erased"))
	want[0].Object = "erased"
	e.finds("shop", audit.Filter{}, 10, want[2], want[1], want[0])
}
