package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Config holds the parts and settings of a Service.
type Config struct {
	Store Store
	Now   func() time.Time // the store's clock
	// Targets bind the URLs that a back end with role admin registers on channels that are not devices'. All other URLs lead to public
	// addresses alone.
	Targets urlguard.Targets
	// Delivers reports whether an app's channel delivers to a URL without the network, so that it may lead anywhere. May be nil.
	Delivers func(app string, ch push.Channel, url string) bool
	// Created is called with each new endpoint that was registered by itself, not in a batch. It must not block. May be nil.
	Created func(e audience.Endpoint)
	// Followed is called with each endpoint that was registered by itself and follows an object, new or not. It must not block. May be nil.
	Followed func(e *audience.Endpoint)
	// Deleted is called with the app's name after an endpoint was deleted. May be nil.
	Deleted func(app string)
}

// Service manages the endpoints of all apps.
type Service struct{ cfg Config }

// New makes a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// check validates an endpoint, including that its URL leads where the holder may let it lead.
func (s *Service) check(who *Holder, e *audience.Endpoint) error {
	if err := e.Check(); err != nil {
		return err
	}
	check := s.cfg.Targets.Strangers().CheckURL
	if d := e.Channel.Find(); who.BackEnd && d != nil && !d.Device {
		check = s.cfg.Targets.CheckURL
		if !who.Admin {
			check = s.checkPublisher
		}
	}
	return audience.CheckURLs(e, func(raw string) error {
		if s.cfg.Delivers != nil && s.cfg.Delivers(who.App, e.Channel, raw) {
			return nil
		}
		return check(raw)
	})
}

// checkPublisher checks a URL of a back end without role admin, which may not lead to what the operator names.
func (s *Service) checkPublisher(raw string) error {
	if u, err := url.Parse(raw); err == nil && !s.cfg.Targets.Everything() && s.cfg.Targets.Names(u) {
		return errors.New("leads to a target of the operator: only an API key with role admin may lead there")
	}
	return s.cfg.Targets.CheckURL(raw)
}

// Registration prepares the registration of an endpoint by a holder. It fails with a *notification.FieldError or a *NotAllowedError. It
// removes unknown hints about the person.
func (s *Service) Registration(who *Holder, e audience.Endpoint) (audience.Registration, error) {
	r := audience.Registration{Endpoint: e, Trusted: who.BackEnd}
	r.Dropped = r.Endpoint.DropUnknownHints()
	if err := who.mayRegister(&r.Endpoint); err != nil {
		return r, err
	}
	return r, s.check(who, &r.Endpoint)
}

// Register creates endpoints, or renews those whose address exists already: see Store.
func (s *Service) Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error) {
	return s.cfg.Store.Register(ctx, app, regs)
}

// RegisterOne registers one endpoint and returns its new manage token; the token is empty if the endpoint keeps its former one.
func (s *Service) RegisterOne(ctx context.Context, app string, r audience.Registration) (done audience.Registered, token string, err error) {
	if err := s.mayHaveOneMore(ctx, app, &r); err != nil {
		return audience.Registered{}, "", err
	}
	token, hash := audience.NewToken()
	r.Endpoint.Token = hash
	if done, err = s.register(ctx, app, r); err != nil || done.Endpoint.Token != hash {
		token = ""
	}
	return done, token, err
}

// MaxOfClient is the number of active endpoints of a recipient beyond which its clients cannot register more: more browsers and phones than
// a person uses, and few enough that one client cannot make a server post to hundreds of addresses for each notification. Back ends may
// register more.
const MaxOfClient = 50

// mayHaveOneMore rejects a client's new endpoint if its recipient has MaxOfClient already. Renewing an existing one is always allowed.
func (s *Service) mayHaveOneMore(ctx context.Context, app string, r *audience.Registration) error {
	e := &r.Endpoint
	if r.Trusted || e.Recipient == "" {
		return nil
	}
	all, err := s.cfg.Store.EndpointsOf(ctx, app, e.Recipient)
	if err != nil {
		return err
	}
	active, key := 0, audience.AddressKey(e)
	for i := range all {
		if audience.AddressKey(&all[i]) == key {
			return nil
		}
		if all[i].Status == audience.Active {
			active++
		}
	}
	if active >= MaxOfClient {
		return &NotAllowedError{fmt.Sprintf("recipient %s has %d active endpoints; clients register at most %d: delete one first, or have a back end register it", e.Recipient, active, MaxOfClient)}
	}
	return nil
}

func (s *Service) register(ctx context.Context, app string, r audience.Registration) (audience.Registered, error) {
	done, err := s.cfg.Store.Register(ctx, app, []audience.Registration{r})
	if err != nil {
		return audience.Registered{}, err
	}
	if done[0].Err == nil && done[0].Created && s.cfg.Created != nil {
		s.cfg.Created(done[0].Endpoint)
	}
	if done[0].Err == nil && r.Endpoint.Channel == push.LiveActivity && s.cfg.Followed != nil {
		s.cfg.Followed(&done[0].Endpoint)
	}
	return done[0], done[0].Err
}

// Find returns an endpoint that the caller may access. For all others it fails with audience.ErrNotFound.
func (s *Service) Find(ctx context.Context, who *Holder, id audience.ID) (audience.Endpoint, error) {
	e, err := s.cfg.Store.Endpoint(ctx, who.App, id)
	if err == nil && !who.mayTouch(&e) {
		return audience.Endpoint{}, audience.ErrNotFound
	}
	return e, err
}

// Change changes an endpoint that the caller may access, and returns the changed endpoint. If a device sets a new address, the endpoint
// becomes active, as by registering: only the old address was gone. change may run more than once.
func (s *Service) Change(ctx context.Context, who *Holder, id audience.ID, change func(*audience.Endpoint)) (audience.Endpoint, error) {
	return s.cfg.Store.UpdateEndpoint(ctx, who.App, id, who.BackEnd, func(e *audience.Endpoint) error {
		if !who.mayTouch(e) {
			return audience.ErrNotFound
		}
		was, known := string(e.Address), *e
		change(e)
		if !who.BackEnd {
			keepKnownHints(e, &known)
		}
		if string(e.Address) == was {
			return e.CheckBesideAddress()
		}
		if err := e.Check(); err != nil {
			return err
		}
		if err := who.mayMove(e); err != nil {
			return err
		}
		if !who.BackEnd {
			e.Status, e.DisabledReason = audience.Active, ""
		}
		return s.check(who, e)
	})
}

// keepKnownHints restores the stored time zone and language if a device sends unknown ones.
func keepKnownHints(e, was *audience.Endpoint) {
	said := *e
	e.DropUnknownHints()
	if e.Locale == "" && said.Locale != "" {
		e.Locale = was.Locale
	}
	if e.Timezone == "" && said.Timezone != "" {
		e.Timezone = was.Timezone
	}
}

// Delete deletes one.
func (s *Service) Delete(ctx context.Context, app string, id audience.ID) error {
	err := s.cfg.Store.DeleteEndpoint(ctx, app, id)
	if err == nil && s.cfg.Deleted != nil {
		s.cfg.Deleted(app)
	}
	return err
}

// Of lists a recipient's endpoints, oldest first.
func (s *Service) Of(ctx context.Context, app, recipient string) ([]audience.Endpoint, error) {
	return s.cfg.Store.EndpointsOf(ctx, app, recipient)
}

// Erase deletes a recipient's endpoints and preferences and returns their number.
func (s *Service) Erase(ctx context.Context, app, recipient string) (int, error) {
	return s.cfg.Store.EraseRecipient(ctx, app, recipient)
}

// List returns the next endpoints with a status that are in a selection: see Store.ListEndpoints.
func (s *Service) List(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	return s.cfg.Store.ListEndpoints(ctx, app, status, sel, after, limit)
}

// CountPart counts a part of an audience: see Store.CountPart.
func (s *Service) CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (Part, error) {
	return s.cfg.Store.CountPart(ctx, app, sel, after)
}

// Count counts the active endpoints of an audience by channel.
func (s *Service) Count(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error) {
	return s.cfg.Store.CountEndpoints(ctx, app, sel)
}

// Totals counts an app's endpoints by channel, active and disabled ones.
func (s *Service) Totals(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error) {
	return s.cfg.Store.EndpointCounts(ctx, app)
}

// Days counts the endpoints that an app gained and lost by the day: see Store.EndpointDays.
func (s *Service) Days(ctx context.Context, app string, ch push.Channel, from, to time.Time) ([]Day, error) {
	return s.cfg.Store.EndpointDays(ctx, app, ch, from, to)
}

// Names lists the first tags and attribute names that an app's endpoints have or had: see Store.Names.
func (s *Service) Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error) {
	return s.cfg.Store.Names(ctx, app, limit)
}

// Join registers an address with which somebody has subscribed outside of the API, such as a chat with a bot; a disabled endpoint becomes
// active. It omits an unknown language. It stores name in the attribute first_name unless the endpoint has one: a back end's value is kept.
func (s *Service) Join(ctx context.Context, app string, ch push.Channel, address json.RawMessage, locale, name string) error {
	e := audience.Endpoint{Channel: ch, Address: address, Locale: locale}
	e.DropUnknownHints()
	if err := e.Check(); err != nil {
		return err
	}
	done, err := s.register(ctx, app, audience.Registration{Endpoint: e, Trusted: true})
	if err != nil || name == "" {
		return err
	}
	if _, has := done.Endpoint.Attributes[FirstName]; has {
		return nil
	}
	_, err = s.cfg.Store.UpdateEndpoint(ctx, app, done.Endpoint.ID, true, func(e *audience.Endpoint) error {
		if _, has := e.Attributes[FirstName]; has {
			return nil
		}
		all := audience.Attributes{FirstName: audience.Text(name)}
		maps.Copy(all, e.Attributes)
		named := *e
		if named.Attributes = all; named.Check() == nil { // the name is omitted if the endpoint already has the maximum number of attributes
			e.Attributes = all
		}
		return nil
	})
	if errors.Is(err, audience.ErrNotFound) {
		return nil // deleted meanwhile
	}
	return err
}

// FirstName is the attribute that holds the name of a chat's user.
const FirstName = "first_name"

// Leave disables the endpoint of an address, if it exists.
func (s *Service) Leave(ctx context.Context, app string, ch push.Channel, address json.RawMessage, reason string) error {
	normal, err := audience.NormalAddress(ch, address)
	if err != nil {
		return err
	}
	e, err := s.cfg.Store.EndpointAt(ctx, app, ch, normal)
	if errors.Is(err, audience.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.cfg.Store.DisableEndpoint(ctx, e.Number, reason)
}
