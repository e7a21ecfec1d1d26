package campaign

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/sending/push"
)

// A message over live is an item of its recipient's inbox if its category is kept. Such a message counts as shown when its item was seen, and
// as clicked when the person has read or answered that item alone: to mark everything as read is no interest in this message.

const (
	maxSightings  = 4096                // that wait; those beyond are not counted
	listedFor     = 10 * time.Second    // how long the list of an app's campaigns is used
	countedFor    = 30 * 24 * time.Hour // after a campaign's end
	versionOfUUID = 14                  // index in the text
)

// sightings are reactions in inboxes that are to be counted.
type sightings struct {
	wait chan sighting
	mu   sync.Mutex
	apps map[string]kept // campaigns whose messages are kept
}

type sighting struct {
	app, recipient, id string
	what               Reaction
}

type kept struct {
	list []*Campaign
	at   time.Time
}

// inInbox reports whether inboxes keep an app's messages of a category.
func (s *Service) inInbox(app, category string) bool {
	if s.cfg.Categories == nil {
		return false
	}
	_, is := preference.Kept(s.cfg.Categories(app), category)
	return is
}

// Inboxes follows what people do in their inboxes. It does not wait.
func (s *Service) Inboxes(changed []inbox.Change) {
	for i := range changed {
		c := &changed[i]
		s.sightedAll(c, c.Seen, Shown)
		s.sightedAll(c, slices.DeleteFunc(slices.Clone(c.Read), func(r inbox.Ref) bool { return !r.Alone }), Clicked)
	}
}

func (s *Service) sightedAll(c *inbox.Change, refs []inbox.Ref, what Reaction) {
	for _, r := range refs {
		if len(r.ID) <= versionOfUUID || r.ID[versionOfUUID] != '5' || !s.inInbox(c.App, r.Category) {
			continue // no message of a campaign
		}
		select {
		case s.sightings.wait <- sighting{c.App, c.Recipient, r.ID, what}:
		default:
			s.metrics.miss(what)
		}
	}
}

// countSightings counts what inboxes report, until ctx ends.
func (s *Service) countSightings(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-s.sightings.wait:
			if err := s.countSighting(ctx, &g); err != nil && ctx.Err() == nil {
				s.metrics.miss(g.what)
				s.log.WarnContext(ctx, "a reaction in an inbox is not counted", "app", g.app, "error", err)
			}
		}
	}
}

func (s *Service) countSighting(ctx context.Context, g *sighting) error {
	list, err := s.keptCampaigns(ctx, g.app)
	if err != nil {
		return err
	}
	for _, c := range list {
		to, err := s.store.DeliveriesTo(ctx, g.app, c.Num, g.recipient)
		if err != nil {
			return err
		}
		for i := range to {
			if to[i].Channel == push.Live && DeliveryID(c.ID, to[i].Endpoint) == g.id {
				return s.react(ctx, c.Num, to[i].Row, g.what)
			}
		}
	}
	return nil
}

// keptCampaigns lists an app's campaigns whose messages inboxes keep, newest first.
func (s *Service) keptCampaigns(ctx context.Context, app string) ([]*Campaign, error) {
	now := s.cfg.Now()
	s.sightings.mu.Lock()
	k := s.sightings.apps[app]
	s.sightings.mu.Unlock()
	if now.Sub(k.at) < listedFor {
		return k.list, nil
	}
	all, err := s.store.Since(ctx, app, now.Add(-countedFor))
	if err != nil {
		return nil, err
	}
	k = kept{at: now}
	for _, c := range all {
		chs := c.Channels
		if len(chs) == 0 {
			chs = c.Spec.Audience.Channels
		}
		if c.Spec.Tracked() && (len(chs) == 0 || slices.Contains(chs, push.Live)) && s.inInbox(app, c.Spec.Content.Category) {
			k.list = append(k.list, c)
		}
	}
	slices.SortFunc(k.list, func(a, b *Campaign) int { return cmp.Compare(b.Num, a.Num) })
	s.sightings.mu.Lock()
	defer s.sightings.mu.Unlock()
	if s.sightings.apps == nil {
		s.sightings.apps = make(map[string]kept)
	}
	s.sightings.apps[app] = k
	return k.list, nil
}
