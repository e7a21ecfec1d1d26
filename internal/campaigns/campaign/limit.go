package campaign

import (
	"context"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
)

// peersFor is how long the list of a category's campaigns is used: an app's settings may move campaigns to another category's.
const peersFor = 10 * time.Second

// limits counts an app's campaigns by category for the app's owner, through whose hands all claims pass. Its mutex is held from the count
// to the claim, so that two campaigns at once do not both pass.
type limits struct {
	mu    sync.Mutex
	peers map[string]peers // by the name of the settings
}

// peers are the campaigns that count for one limit.
type peers struct {
	nums []int64
	per  time.Duration // the campaigns within this time were looked up
	at   time.Time
}

// forget makes the next claims look campaigns up again.
func (l *limits) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.peers)
}

// limit is the limit that holds for a campaign.
type limit struct {
	preference.Limit
	excess preference.Excess
	name   string // of the settings
	all    map[string]preference.Category
}

// limit returns the limit on the run's category; its zero Limit is none.
func (r *run) limit() (l limit) {
	if r.s.cfg.Categories == nil {
		return l
	}
	l.all = r.s.cfg.Categories(r.c.App)
	name, c := preference.Governing(l.all, r.c.Spec.Content.Category)
	l.name, l.Limit, l.excess = name, c.Campaigns, c.Excess
	return l
}

// within returns the targets whose persons the limit lets the campaign reach now, and the results of the others. The caller holds the mutex
// of the owner's limits.
func (r *run) within(ctx context.Context, l limit, targets []Target, now time.Time) (pass []Target, over []Result, err error) {
	nums, err := r.peersOf(ctx, l, now)
	if err != nil || len(nums) == 0 || len(targets) == 0 {
		return targets, nil, err
	}
	got, err := r.s.store.Got(ctx, r.c.App, nums, targets, now.Add(-l.Per))
	if err != nil {
		return nil, nil, fmt.Errorf("count campaigns of category %s: %w", l.name, err)
	}
	for i := range targets {
		t := &targets[i]
		if t.Unsure || t.Left || t.Disabled != "" || len(got[i]) < l.Count { // an unsure one may have reached the person already
			pass = append(pass, *t)
			continue
		}
		over = append(over, r.over(l, t, got[i]))
	}
	return pass, over, nil
}

// over returns the result of a message to a person who got other campaigns at these times.
func (r *run) over(l limit, t *Target, got []time.Time) Result {
	res := Result{Row: t.Row, Channel: t.Channel, Outcome: Suppressed, Attempts: t.Attempts}
	res.Detail = preference.BeyondCampaigns(l.Limit, r.c.Spec.Content.Category, got[0])
	if l.excess == preference.Suppress {
		return res
	}
	free := got[l.Count-1].Add(l.Per)
	if !free.Before(r.expires(t, free)) {
		res.Detail += ". The message expires before the app allows it"
		return res
	}
	res.Outcome, res.Due = Pending, free
	return res
}

// peersOf lists the other campaigns that count for the limit.
func (r *run) peersOf(ctx context.Context, l limit, now time.Time) ([]int64, error) {
	known := &r.t.own.limits
	p, there := known.peers[l.name]
	if !there || p.per < l.Per || now.Sub(p.at) > peersFor {
		list, err := r.s.store.Since(ctx, r.c.App, now.Add(-l.Per))
		if err != nil {
			return nil, fmt.Errorf("list campaigns of category %s: %w", l.name, err)
		}
		p = peers{per: l.Per, at: now}
		for _, c := range list {
			if name, _ := preference.Governing(l.all, c.Spec.Content.Category); name == l.name {
				p.nums = append(p.nums, c.Num)
			}
		}
		if known.peers == nil {
			known.peers = make(map[string]peers)
		}
		known.peers[l.name] = p
	}
	others := make([]int64, 0, len(p.nums))
	for _, num := range p.nums {
		if num != r.c.Num {
			others = append(others, num)
		}
	}
	return others, nil
}

// admit is within for targets that were read: it stores the results of those beyond the limit, before they take slots of their provider.
func (r *run) admit(ctx context.Context, targets []Target, now time.Time) ([]Target, error) {
	l := r.limit()
	if l.IsZero() || len(targets) == 0 {
		return targets, nil
	}
	known := &r.t.own.limits
	known.mu.Lock()
	defer known.mu.Unlock()
	pass, over, err := r.within(ctx, l, targets, now)
	if err != nil || len(over) == 0 {
		return pass, err
	}
	return pass, r.Finish(ctx, over, now)
}

// claim marks targets as being sent, except those beyond the limit.
func (r *run) claim(ctx context.Context, targets []Target, now time.Time) ([]Target, error) {
	if l := r.limit(); !l.IsZero() {
		known := &r.t.own.limits
		known.mu.Lock()
		defer known.mu.Unlock()
		pass, over, err := r.within(ctx, l, targets, now)
		if err == nil && len(over) > 0 {
			err = r.Finish(ctx, over, now)
		}
		if err != nil {
			return nil, err
		}
		targets = pass
	}
	if len(targets) == 0 {
		return nil, nil
	}
	return r.s.store.Claim(ctx, r.t.own.epoch, r.c.Num, targets, now)
}
