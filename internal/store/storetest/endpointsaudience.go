package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/thorough"
)

func (e *endpointEnv) selection(a audience.Audience) *audience.Selection {
	e.Helper()
	sel, err := a.Select("")
	e.check(err)
	return sel
}

// selected lists the numbers of an audience page by page, and checks that counting it gives the same result.
func (e *endpointEnv) selected(app string, a audience.Audience, limit int) (numbers []int64) {
	e.Helper()
	sel := e.selection(a)
	want := map[push.Channel]int64{}
	after := int64(0)
	for more := true; more; {
		var page []audience.Endpoint
		var err error
		page, after, more, err = e.s.SelectEndpoints(e.Context(), app, sel, after, limit)
		e.check(err)
		for _, x := range page {
			if len(numbers) > 0 && x.Number <= numbers[len(numbers)-1] || !sel.Match(&x) || x.Status != audience.Active || x.App != app {
				e.Fatalf("%+v is in the page after %v", x, numbers)
			}
			numbers = append(numbers, x.Number)
			want[x.Channel]++
		}
	}
	got, err := e.s.CountEndpoints(e.Context(), app, sel)
	e.check(err)
	for ch := range got {
		if got[ch] == 0 {
			delete(got, ch)
		}
	}
	if !reflect.DeepEqual(got, want) {
		e.Errorf("%+v counts %v, lists %v", a, got, want)
	}
	return numbers
}

func numbersOf(list []audience.Endpoint) (numbers []int64) {
	for _, x := range list {
		numbers = append(numbers, x.Number)
	}
	return numbers
}

// enumerationIsStable changes the audience between pages: endpoints that stay are seen once.
func enumerationIsStable(e *endpointEnv) {
	var regs []audience.Registration
	for n := range 200 {
		regs = append(regs, chat(n+1, tags("all")))
	}
	list := e.register(App, regs...)
	sel := e.selection(audience.Audience{TagsAny: []string{"all"}})
	seen := map[int64]int{}
	after, fresh := int64(0), 1000
	for i, more := 0, true; more; i++ {
		var page []audience.Endpoint
		var err error
		page, after, more, err = e.s.SelectEndpoints(e.Context(), App, sel, after, 10)
		e.check(err)
		for _, x := range page {
			seen[x.Number]++
		}
		if i < 10 {
			e.check(e.s.DeleteEndpoint(e.Context(), App, list[i].ID))
			e.check(e.s.DisableEndpoint(e.Context(), list[i+20].Number, "gone"))
			e.register(App, chat(fresh, tags("all")))
			fresh++
		}
	}
	for i, x := range list {
		if n := seen[x.Number]; n > 1 || n == 0 && i >= 30 {
			e.Errorf("number %d was seen %d times", x.Number, n)
		}
	}
}

// shortPages registers many endpoints, of which the audience contains one.
func shortPages(e *endpointEnv) {
	const all = 6000 // more than one step of a count or of a campaign
	var regs []audience.Registration
	for n := range all {
		r := chat(n + 1)
		if n == all-1 {
			r.Endpoint.Attributes = audience.Attributes{"age": audience.Number(99)}
		}
		regs = append(regs, r)
	}
	e.register(App, regs...)
	sel := e.selection(audience.Audience{Where: "age > 90"})
	first, next, more, err := e.s.SelectEndpoints(e.Context(), App, sel, 0, 10)
	e.check(err)
	if len(first) == 0 && (!more || next == 0) {
		e.Errorf("the first page ends at %d, more %t", next, more)
	}
	if n := e.selected(App, audience.Audience{Where: "age > 90"}, 10); len(n) != 1 {
		e.Errorf("found %v", n)
	}
	for _, status := range []audience.Status{"", audience.Active} {
		found, pages := 0, 0
		for after, more := int64(0), true; more; pages++ {
			var page []audience.Endpoint
			page, after, more, err = e.s.ListEndpoints(e.Context(), App, status, sel, after, 10)
			e.check(err)
			found += len(page)
		}
		if found != 1 || pages < all/endpoint.ListLooks {
			e.Errorf("of status %q %d are found on %d pages, want 1 and no page that looks at more than %d", status, found, pages, endpoint.ListLooks)
		}
	}
	e.countInParts(sel, all)
}

// countInParts counts an audience with one of many endpoints.
func (e *endpointEnv) countInParts(sel *audience.Selection, all int) {
	e.Helper()
	sum, looked, parts := int64(0), int64(0), 0
	for after := int64(0); after > 0 || parts == 0; parts++ {
		part, err := e.s.CountPart(e.Context(), App, sel, after)
		e.check(err)
		if part.Next > 0 && part.Next <= after {
			e.Fatalf("a part that begins after %d ends at %d", after, part.Next)
		}
		sum, looked, after = sum+part.Count, looked+part.Looked, part.Next
	}
	if sum != 1 || parts < 2 || looked <= 0 || looked >= int64(all) {
		e.Errorf("%d are counted in %d parts, %d looked at before the last", sum, parts, looked)
	}
	for _, whole := range []audience.Audience{{}, {Channels: []push.Channel{push.Telegram}}} {
		if part, err := e.s.CountPart(e.Context(), App, e.selection(whole), 0); err != nil || part != (endpoint.Part{Count: int64(all)}) {
			e.Errorf("all are %+v, %v; want %d without looking", part, err, all)
		}
	}
	if part, err := e.s.CountPart(e.Context(), App, e.selection(audience.Audience{Channels: []push.Channel{push.Webhook}}), 0); err != nil || part != (endpoint.Part{}) {
		e.Errorf("of a channel that nobody has: %+v, %v", part, err)
	}
}

// audiencesAgree compares the store's selections with the result of audience.Selection for each endpoint.
func audiencesAgree(e *endpointEnv) {
	seed := rand.Uint64()
	defer func() {
		if e.Failed() {
			e.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 2))
	var regs []audience.Registration
	for n := range 300 {
		regs = append(regs, randomEndpoint(r, n))
	}
	for _, app := range []string{App, "other"} {
		e.register(app, regs...)
	}
	var all []audience.Endpoint
	for after, more := int64(0), true; more; {
		page, next, again, err := e.s.ListEndpoints(e.Context(), App, "", &audience.Selection{}, after, 100)
		e.check(err)
		all, after, more = append(all, page...), next, again
	}
	for i := range all {
		if i%7 == 0 {
			e.check(e.s.DisableEndpoint(e.Context(), all[i].Number, "gone"))
			all[i].Status = audience.Disabled
		}
	}
	for i := range thorough.Rounds(60, 400) {
		limit := len(all) // each page takes a query, so only one audience in four checks page boundaries
		if i%4 == 0 {
			limit = 1 + r.IntN(60)
		}
		a := randomAudience(r)
		for r.IntN(3) == 0 {
			a.Endpoints = append(a.Endpoints, all[r.IntN(len(all))].ID.String())
		}
		sel := e.selection(a)
		var want []int64
		for i := range all {
			if all[i].Status == audience.Active && sel.Match(&all[i]) {
				want = append(want, all[i].Number)
			}
		}
		if got := e.selected(App, a, limit); !slices.Equal(got, want) {
			e.Errorf("%+v\nselects %v\nmeans   %v", a, got, want)
		}
	}
}

func randomEndpoint(r *rand.Rand, n int) audience.Registration {
	reg := chat(n + 1)
	x := &reg.Endpoint
	if r.IntN(3) == 0 {
		x.Channel, x.Address = push.Webhook, json.RawMessage(fmt.Sprintf(`{"url":"https://x.example/%d"}`, n))
	}
	for _, t := range []string{"a", "b", "c"} {
		if r.IntN(2) == 0 {
			x.Tags = append(x.Tags, t)
		}
	}
	x.Attributes = audience.Attributes{}
	for _, name := range []string{"city", "age", "and"} {
		switch r.IntN(4) {
		case 0:
			x.Attributes[name] = audience.Text([]string{"", "Oslo", "Osaka", "Os\U0010FFFFlo", "Os\uD7FFx", "5"}[r.IntN(6)])
		case 1:
			x.Attributes[name] = audience.Number([]float64{-1, 0, 1, 5, 18.5}[r.IntN(5)])
		case 2:
			x.Attributes[name] = audience.Bool(r.IntN(2) == 0)
		}
	}
	x.Recipient = []string{"", "ada", "bob"}[r.IntN(3)]
	x.Locale = []string{"", "fr", "nb-NO"}[r.IntN(3)]
	return reg
}

func randomAudience(r *rand.Rand) (a audience.Audience) {
	pick := func(from ...string) (list []string) {
		for _, s := range from {
			if r.IntN(3) == 0 {
				list = append(list, s)
			}
		}
		return list
	}
	if r.IntN(3) == 0 {
		a.Channels = [][]push.Channel{{push.Telegram}, {push.Webhook, push.Telegram}, {push.WebPush}}[r.IntN(3)]
	}
	if r.IntN(4) == 0 {
		a.Recipients = pick("ada", "bob", "eve")
	}
	if r.IntN(3) == 0 {
		a.TagsAny = pick("a", "b", "none")
	}
	if r.IntN(3) == 0 {
		a.TagsAll = pick("a", "b", "c")
	}
	if r.IntN(4) > 0 {
		a.Where = randomWhere(r, 3)
	}
	return a
}

func randomWhere(r *rand.Rand, depth int) string {
	if depth > 0 {
		switch r.IntN(5) {
		case 0:
			return randomWhere(r, depth-1) + " and " + randomWhere(r, depth-1)
		case 1:
			return "(" + randomWhere(r, depth-1) + " or " + randomWhere(r, depth-1) + ")"
		case 2:
			return "not " + randomWhere(r, depth-1)
		}
	}
	field := []string{"city", "age", "attributes.and", "nothing"}[r.IntN(4)]
	value := []string{`"Oslo"`, `"Os"`, `"Os` + "\U0010FFFF" + `"`, `"Os` + "\uD7FF" + `"`, `""`, `"5"`, "5", "0", "true", "-1"}[r.IntN(10)]
	text := []string{`"Os"`, `"o"`, `"5"`, `"Os` + "\U0010FFFF" + `"`, `"Os` + "\uD7FF" + `"`}[r.IntN(5)]
	switch r.IntN(8) {
	case 0:
		return "exists " + []string{field, "tags", "recipient", "locale", "last_seen_at"}[r.IntN(5)]
	case 1:
		return field + " " + []string{"contains", "prefix", "not contains"}[r.IntN(3)] + " " + text
	case 2:
		return field + " in (" + value + `, 1, "Osaka")`
	case 3:
		return `tags contains "` + []string{"a", "b", "none"}[r.IntN(3)] + `"`
	case 4:
		return []string{"recipient", "locale", "timezone", "channel"}[r.IntN(4)] + " " + []string{`!= "telegram"`, `in ("telegram", "webhook")`, `= "webhook"`, `< "webhook"`}[r.IntN(4)]
	case 5:
		return []string{"created_at", "last_seen_at"}[r.IntN(2)] + []string{" < ", " >= "}[r.IntN(2)] + `"2031-05-04"`
	}
	return field + " " + []string{"=", "!=", "<", "<=", ">", ">="}[r.IntN(6)] + " " + value
}
