package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

const (
	endpointsAPage = 50
	// lookFor limits the time of one page's search when few endpoints match; the next page continues the search.
	lookFor = 100 * time.Millisecond
)

// search is a search for endpoints, with its results.
type search struct {
	Who      string // a recipient, or the id of an endpoint
	Channel  push.Channel
	Tag      string
	Segment  string
	Having   string // an expression about attributes
	Status   audience.Status
	Channels []push.Channel
	Segments []string // that can be chosen
	Problem  string
	Items    []audience.Endpoint
	Looked   int64  // endpoints searched so far without filling a page, earlier pages included; 0: only the listed ones
	Next     string // path of the next page; empty: there is none
}

func newSearch(q url.Values) *search {
	return &search{
		Who: text(q, "who"), Channel: push.Channel(text(q, "channel")), Tag: text(q, "tag"), Segment: text(q, "segment"), Having: text(q, "having"),
		Status: audience.Status(text(q, "status")), Channels: push.Channels(),
	}
}

// query returns the search as the query of the page's URL.
func (s *search) query() url.Values {
	q := make(url.Values)
	for name, value := range map[string]string{"who": s.Who, "channel": string(s.Channel), "tag": s.Tag, "segment": s.Segment, "having": s.Having, "status": string(s.Status)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// exportURL returns the path of a file with all results of a search.
func exportURL(s *search, kind, format string) string {
	q := s.query()
	q.Set("format", format)
	return "/ui/audience/export" + kind + "?" + q.Encode()
}

// filter returns the search as a filter for the store; its error is a mistake that a person can mend.
func (a *admin) filter(v *visit, s *search) (f endpoint.Filter, err error) {
	who := audience.Audience{Where: s.Having, Segment: s.Segment}
	if _, err := audience.ParseID(s.Who); err == nil {
		who.Endpoints = []string{s.Who}
	} else if s.Who != "" {
		who.Recipients = []string{s.Who}
	}
	if s.Channel != "" {
		who.Channels = []push.Channel{s.Channel}
	}
	if s.Tag != "" {
		who.TagsAll = []string{s.Tag}
	}
	switch f.Status = s.Status; s.Status {
	case "", audience.Active, audience.Disabled:
	default:
		return f, mistaken(http.StatusUnprocessableEntity, "A status is active or disabled.")
	}
	f.Selection, err = a.selection(v, who)
	return f, explain(err)
}

// find reads the matching endpoints from a cursor on.
func (a *admin) find(v *visit, s *search, cursor string) error {
	f, err := a.filter(v, s)
	var wrong *mistake
	if errors.As(err, &wrong) {
		s.Problem = wrong.in(v.lang)
		return nil
	}
	after, until := position(cursor), a.now().Add(lookFor)
	if after > 0 {
		s.Looked = position(v.r.URL.Query().Get("looked"))
	}
	for more := true; more; {
		var list []audience.Endpoint
		if list, after, more, err = a.Audience.List(v.r.Context(), v.person.App, f.Status, f.Selection, after, endpointsAPage-len(s.Items)); err != nil {
			return err
		}
		s.Items = append(s.Items, list...)
		if more && len(s.Items) < endpointsAPage {
			s.Looked += endpoint.ListLooks
		}
		if more && (len(s.Items) == endpointsAPage || a.now().After(until)) {
			q := s.query()
			q.Set("cursor", strconv.FormatInt(after, 10))
			if s.Looked > 0 && len(s.Items) == 0 {
				q.Set("looked", strconv.FormatInt(s.Looked, 10))
			}
			s.Next = "/ui/audience?" + q.Encode()
			return nil
		}
	}
	return nil
}

// subscriber is the page of one endpoint.
type subscriber struct {
	audience.Endpoint
	Leads      string // where the endpoint leads, without the secret part of its address
	Attributes []attribute
}

type attribute struct{ Name, Value string }

// endpointInPath finds the endpoint that the path names.
func (a *admin) endpointInPath(v *visit) (e audience.Endpoint, err error) {
	return a.endpointOf(v, v.r.PathValue("id"))
}

func (a *admin) endpointOf(v *visit, id string) (e audience.Endpoint, err error) {
	which, err := audience.ParseID(id)
	if err != nil {
		return e, noEndpoint(audience.ErrNotFound)
	}
	e, err = a.Audience.Find(v.r.Context(), backEnd(v), which)
	return e, noEndpoint(err)
}

func noEndpoint(err error) error {
	if errors.Is(err, audience.ErrNotFound) {
		return mistaken(http.StatusNotFound, "There is no such endpoint.")
	}
	return err
}

// backEnd returns the author of changes to endpoints: people may do what the app's own program may.
func backEnd(v *visit) *endpoint.Holder {
	return &endpoint.Holder{App: v.person.App, BackEnd: true, Admin: v.person.Role.May(signin.Admin)}
}

func (a *admin) showEndpoint(v *visit) error {
	e, err := a.endpointInPath(v)
	if err != nil {
		return err
	}
	s := subscriber{Endpoint: e, Leads: leadsTo(v.lang, &e)}
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		s.Attributes = append(s.Attributes, attribute{name, e.Attributes[name].String()})
	}
	return a.show(v, "endpoint", v.t("Endpoint %s", e.ID.String()), "audience", s)
}

// leadsTo describes where an endpoint leads. It omits subscriptions' URLs, tokens and hooks' whole URLs, since anyone who knows one can
// send to it.
func leadsTo(l *words.Language, e *audience.Endpoint) string {
	var address struct {
		Endpoint string          `json:"endpoint"`
		URL      string          `json:"url"`
		Chat     json.RawMessage `json:"chat_id"`
		Token    string          `json:"token"`
		Type     string          `json:"type"`
	}
	_ = json.Unmarshal(e.Address, &address) // registration has checked the address
	switch a := e.Activity(); {
	case e.Channel == push.LiveActivity && a.ChannelID != "":
		return l.T("the Live Activities of everybody who follows %s", a.Group+"/"+a.Object)
	case e.Channel == push.LiveActivity:
		return l.T("a Live Activity on the lock screen that follows %s", a.Group+"/"+a.Object)
	case e.Channel == push.LiveActivityStart:
		return l.T("a device where Live Activities of type %s can be started", address.Type)
	case address.Endpoint != "":
		return l.T("a browser, by %s", host(address.Endpoint))
	case address.URL != "":
		return host(address.URL)
	case address.Chat != nil:
		return l.T("chat %s", strings.Trim(string(address.Chat), `"`)) // a number or a name
	case address.Token != "":
		return l.T("a device, by its token")
	}
	return l.T("the recipient's mailbox")
}

func host(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return u.Host
}

// pausedByHand is the stored reason of an endpoint that a person paused.
const pausedByHand = "paused on the web page"

func (a *admin) pauseEndpoint(v *visit) error {
	return a.changeEndpoint(v, "paused", func(e *audience.Endpoint) {
		if e.Status == audience.Active {
			e.Status, e.DisabledReason = audience.Disabled, pausedByHand
		}
	})
}

func (a *admin) wakeEndpoint(v *visit) error {
	return a.changeEndpoint(v, "active", func(e *audience.Endpoint) { e.Status, e.DisabledReason = audience.Active, "" })
}

func (a *admin) changeEndpoint(v *visit, to string, change func(*audience.Endpoint)) error {
	e, err := a.endpointInPath(v)
	if err != nil {
		return err
	}
	ctx := v.r.Context()
	if _, err = a.Audience.Change(ctx, backEnd(v), e.ID, change); err != nil {
		return noEndpoint(err)
	}
	a.Log.InfoContext(ctx, "endpoint changed on the web page", "app", v.person.App, "endpoint", e.ID.String(), "to", to, "by", v.person.Name())
	a.leadTo(v, "/ui/audience/"+e.ID.String(), http.StatusOK)
	return nil
}

func (a *admin) deleteEndpoint(v *visit) error {
	e, err := a.endpointInPath(v)
	if err != nil {
		return err
	}
	ctx := v.r.Context()
	if err := a.Audience.Delete(ctx, v.person.App, e.ID); err != nil && !errors.Is(err, audience.ErrNotFound) { // somebody else was quicker
		return err
	}
	a.Log.InfoContext(ctx, "endpoint deleted on the web page", "app", v.person.App, "endpoint", e.ID.String(), "by", v.person.Name())
	a.leadTo(v, "/ui/audience", http.StatusOK)
	return nil
}

// sendURL returns the path of a new campaign's form, for one "endpoint" or one "recipient".
func sendURL(what, name string) string {
	return "/ui/campaigns/new?" + url.Values{what: {name}}.Encode()
}
