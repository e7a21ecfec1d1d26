package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Campaigns reads and changes campaigns for the pages.
type Campaigns interface {
	Create(ctx context.Context, app string, spec campaign.Spec, sendAt time.Time, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Get(ctx context.Context, app, id string) (*campaign.View, error)
	List(ctx context.Context, app string, limit int, cursor int64) ([]*campaign.View, error)
	Start(ctx context.Context, app, id string, sendAt time.Time) (*campaign.View, error)
	Pause(ctx context.Context, app, id string) (*campaign.View, error)
	Resume(ctx context.Context, app, id string) (*campaign.View, error)
	Cancel(ctx context.Context, app, id string) (*campaign.View, error)
	Recall(ctx context.Context, app, id string) (*campaign.View, error)
	Correct(ctx context.Context, app, id string, k campaign.Correction) (*campaign.View, error)
	RetryUnknown(ctx context.Context, app, id string) (int64, error)
	Decide(ctx context.Context, app, id, variant string) (*campaign.View, error)
	Clone(ctx context.Context, app, id, name, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Sendable(ctx context.Context, app string, spec campaign.Spec, sendAt time.Time) ([]push.Channel, error)
	Paces(ctx context.Context, app string, chs []push.Channel) map[push.Channel]float64
	Keep(ctx context.Context, app, id string, spec campaign.Spec, sendAt time.Time, must setting.Match, idem string, body [sha256.Size]byte) (*campaign.View, error)
	Revise(ctx context.Context, app, id string, spec campaign.Spec, sendAt time.Time, must setting.Match) (*campaign.View, error)
	Test(ctx context.Context, app, id string, endpoints []audience.ID) ([]campaign.Tested, error)
	Delete(ctx context.Context, app, id string, must setting.Match) error
	Report(ctx context.Context, app, id string, only *campaign.Outcome, limit int, cursor int64) (list []campaign.Delivery, next int64, err error)
	Days(ctx context.Context, app, id string, from, to time.Time) ([]campaign.Day, error)
}

// pageSize is the number of campaigns on a page of the list.
const pageSize = 30

// entry is a campaign in the list.
type entry struct {
	ID, Name  string
	State     campaign.State
	Channels  string
	Bar       bar
	Total     int64
	Clicked   int64
	Counted   reactions
	CreatedAt time.Time
	SentAt    time.Time // zero: not yet
}

type list struct {
	Sought sought
	States []campaign.State
	Looked int    // campaigns that were looked through, if there are more; 0: all
	More   bool   // campaigns were found than are listed
	Self   string // path of this page
	Items  []entry
	Moving bool  // some may change by themselves
	Cursor int64 // this page's
	Next   int64 // the next page's; 0: none
	Chart  *chart
	Bulk   *bulk
}

func (a *admin) listCampaigns(v *visit) error { return a.showCampaigns(v, nil) }

// showCampaigns shows the list, with the result of an operation on several campaigns.
func (a *admin) showCampaigns(v *visit, b *bulk) error {
	cursor, _ := strconv.ParseInt(v.r.URL.Query().Get("cursor"), 10, 64)
	want, err := soughtIn(v.r.URL.Query())
	if err != nil {
		return err
	}
	l := list{Cursor: cursor, Bulk: b, Sought: want, States: campaignStates, Self: want.path(cursor)}
	var views []*campaign.View
	if want.plain() {
		views, err = a.Campaigns.List(v.r.Context(), v.person.App, pageSize, cursor)
	} else if views, l.Looked, err = a.search(v, want); len(views) > pageSize {
		views, l.More = views[:pageSize], true
	}
	if err != nil {
		return err
	}
	if cursor == 0 && want.plain() {
		if l.Chart, err = a.chart(v); err != nil {
			return err
		}
	}
	for _, c := range views {
		l.Items = append(l.Items, entry{
			ID: c.ID, Name: named(c), State: c.State, Channels: channelNames(v.lang, c), Bar: newBar(v.lang, c), Total: c.Total(), CreatedAt: c.CreatedAt,
			Clicked: c.Clicked, Counted: reactionsOf(c), SentAt: c.StartedAt,
		})
		l.Moving = l.Moving || moving(c)
	}
	if want.plain() && len(views) == pageSize {
		l.Next = views[len(views)-1].Num
	}
	return a.show(v, "campaigns", v.t("Campaigns"), "campaigns", l)
}

func named(c *campaign.View) string {
	for _, s := range []string{c.Spec.Name, c.Spec.Content.Title, c.Spec.Content.Body} {
		if s = strings.TrimSpace(s); s != "" {
			return clip(s, 80)
		}
	}
	return c.ID
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func channelNames(l *words.Language, c *campaign.View) string {
	chs := c.Campaign.Channels
	if len(chs) == 0 {
		chs = c.Spec.Audience.Channels
	}
	names := make([]string, len(chs))
	for i, ch := range chs {
		names[i] = l.T(channelWord(ch))
	}
	if len(names) == 0 {
		return l.T("all that are set up")
	}
	return strings.Join(names, ", ")
}

// moving reports whether a campaign's figures may change by themselves.
func moving(c *campaign.View) bool {
	switch c.State {
	case campaign.Scheduled, campaign.Running, campaign.Recalling, campaign.Correcting:
		return true
	case campaign.Cancelled:
		return c.Open() > 0
	}
	return false
}

// bar is the progress bar of a campaign.
type bar struct {
	Label string
	Parts []barPart
}

type barPart struct {
	Class       string
	From, Width int64 // thousandths
}

// shownOutcomes lists the outcomes in the order of their display.
var shownOutcomes = []campaign.Outcome{
	campaign.Accepted, campaign.TakenBack, campaign.Unknown, campaign.Suppressed, campaign.Expired, campaign.Refused,
}

func newBar(l *words.Language, c *campaign.View) bar {
	total := c.Total()
	if total == 0 {
		return bar{Label: l.T("nothing sent yet")}
	}
	var b bar
	var sum int64
	for _, o := range shownOutcomes {
		n := c.Counts[o]
		if n == 0 {
			continue
		}
		from := sum * 1000 / total
		sum += n
		b.Parts = append(b.Parts, barPart{o.String(), from, max(sum*1000/total-from, 1)})
	}
	b.Label = l.T("%[1]s of %[2]s done", sum, total)
	return b
}

// detail is the content of a campaign's own page.
type detail struct {
	progress
	Name     string
	Previews []bubble
	Facts    []fact
	Testable bool
	Tried    tried
}

type fact struct {
	Name, Value string
	At          time.Time // in the place of Value
}

// progress is the changing part of the page.
type progress struct {
	ID          string
	State       campaign.State
	Editable    bool
	Correctable bool
	Detail      string
	Moving      bool
	Actions     []action
	Bar         bar
	Total       int64
	Enumerated  bool
	Outcomes    []outcomeCount
	Funnel      []rung // nil: there are no messages yet
	Causes      bool   // messages have failed, and no more are sent: the page says why
	Shown       int64
	Clicked     int64
	NotRecalled int64
	Correction  *corrected
	Compared    *comparison // nil: it has no variants
	Rate, ETA   string
	Key         string // makes a second click on "Clone" find the first one's copy
}

// corrected is the progress of the last correction.
type corrected struct {
	At                  time.Time
	Messages, Done, Not int64
}

type outcomeCount struct {
	Name  string
	Count int64
}

// action is a button.
type action struct{ Name, Label, Class, Confirm string }

func (a *admin) showCampaign(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	return a.showDetail(v, c, tried{})
}

// showDetail shows a campaign's own page, with the result of a test message.
func (a *admin) showDetail(v *visit, c *campaign.View, t tried) error {
	d := detail{progress: a.progress(v, c), Name: named(c), Facts: facts(v.lang, c), Testable: !c.Ended(), Tried: t}
	for _, ch := range previewChannels(c.Campaign.Channels, c.Spec.Audience.Channels) {
		d.Previews = append(d.Previews, bubbles(v.lang, &c.Spec, ch)...)
	}
	return a.show(v, "campaign", d.Name, "campaigns", d)
}

func (a *admin) showProgress(v *visit) error {
	c, err := a.campaign(v)
	if err != nil {
		return err
	}
	return a.part(v, "campaign", "progress", a.progress(v, c))
}

func (a *admin) campaign(v *visit) (*campaign.View, error) {
	c, err := a.Campaigns.Get(v.r.Context(), v.person.App, v.r.PathValue("id"))
	return c, explain(err)
}

// explain converts an error that a person can mend into a mistake in their words.
func explain(err error) error {
	var state *campaign.StateError
	var channel *campaign.ChannelError
	var field *notification.FieldError
	switch {
	case errors.Is(err, campaign.ErrNotFound):
		return mistaken(http.StatusNotFound, "There is no such campaign.")
	case errors.As(err, &state):
		return stateProblem(state)
	case errors.As(err, &channel):
		return &mistake{status: http.StatusConflict, cause: err}
	case errors.As(err, &field):
		return &mistake{status: http.StatusUnprocessableEntity, cause: field}
	}
	return err
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return upperFirst(s) + "."
}

func (a *admin) progress(v *visit, c *campaign.View) progress {
	p := progress{
		ID: c.ID, State: c.State, Editable: c.State == campaign.Draft || c.State == campaign.Scheduled, Correctable: correctable(c), Detail: c.Detail, Moving: moving(c), Actions: actions(v.lang, c), Bar: newBar(v.lang, c), Total: c.Total(),
		Key: rand.Text(), Compared: compared(v.lang, c), Enumerated: c.Enumerated || c.State == campaign.Draft, Funnel: funnel(v.lang, c), Shown: c.Shown, Clicked: c.Clicked, NotRecalled: c.NotRecalled,
		Causes: c.Counts[campaign.Refused] > 0 && !moving(c),
	}
	if c.State == campaign.Draft {
		if o, err := a.outlook(v, &c.Spec, c.SendAt); err == nil { // else the question is asked without figures
			p.Actions[0].Confirm = o.question(v.lang)
		}
	}
	if k := c.Spec.Correction; k != nil {
		p.Correction = &corrected{At: k.At, Messages: k.Messages, Done: c.Corrected, Not: c.NotCorrected}
	}
	if open := c.Open(); open > 0 {
		p.Outcomes = append(p.Outcomes, outcomeCount{campaign.Pending.String(), open})
	}
	for _, o := range shownOutcomes {
		if n := c.Counts[o]; n > 0 {
			p.Outcomes = append(p.Outcomes, outcomeCount{o.String(), n})
		}
	}
	if c.Rate > 0 && p.Moving {
		p.Rate = v.lang.Decimal(c.Rate)
	}
	if left := c.ETA.Sub(a.now()); !c.ETA.IsZero() && left > 0 {
		p.ETA = v.lang.Lasted(left)
	}
	return p
}

// actions returns the actions that a campaign's state allows.
func actions(l *words.Language, c *campaign.View) (list []action) {
	var (
		start  = action{Name: "start", Label: l.T("Start"), Confirm: l.T("Send it to everybody it reaches?")}
		pause  = action{Name: "pause", Label: l.T("Pause"), Class: "quiet"}
		resume = action{Name: "resume", Label: l.T("Resume")}
		cancel = action{Name: "cancel", Label: l.T("Cancel"), Class: "danger", Confirm: l.T("What has not been sent yet will never be. Cancel the campaign?")}
		recall = action{Name: "recall", Label: l.T("Take back"), Class: "danger", Confirm: l.T("Take back what was sent, as far as the channels can?")}
		remove = action{Name: "delete", Label: l.T("Delete"), Class: "danger", Confirm: l.T("Delete the campaign and all that is known of its messages?")}
		again  = action{Name: "retry-unknown", Label: l.T("Resend unknown"), Class: "quiet", Confirm: l.T("Some may get it twice. Send again what may not have arrived?")}
	)
	switch c.State {
	case campaign.Draft:
		return []action{start, remove}
	case campaign.Scheduled:
		return []action{pause, cancel}
	case campaign.Running:
		list = []action{pause, cancel, recall}
	case campaign.Paused:
		list = []action{resume, cancel, recall}
	case campaign.Completed:
		list = []action{recall, remove}
	case campaign.Correcting:
		return []action{recall}
	case campaign.Cancelled, campaign.Failed, campaign.RecallDone:
		if c.Counts[campaign.Accepted]+c.Counts[campaign.Unknown] > 0 {
			return []action{recall, remove}
		}
		return []action{remove}
	}
	if c.State != campaign.Running && c.Counts[campaign.Unknown] > 0 {
		list = append(list, again)
	}
	return list
}

func (a *admin) deleteCampaign(v *visit) error {
	ctx, app, id := v.r.Context(), v.person.App, v.r.PathValue("id")
	if err := a.Campaigns.Delete(ctx, app, id, setting.Match{}); err != nil {
		return explain(err)
	}
	a.Log.InfoContext(ctx, "campaign deleted on the web page", "app", app, "campaign", id, "by", v.person.Name())
	a.leadTo(v, "/ui/campaigns", http.StatusOK)
	return nil
}

// cloneCampaign makes a draft of a campaign and leads to its form.
func (a *admin) cloneCampaign(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	ctx, app, id := v.r.Context(), v.person.App, v.r.PathValue("id")
	was, err := a.campaign(v)
	if err != nil {
		return err
	}
	c, err := a.Campaigns.Clone(ctx, app, id, copyName(v.lang, was), text(v.r.PostForm, "key"), sha256.Sum256([]byte("clone "+id)))
	if err != nil {
		return explain(err)
	}
	a.Log.InfoContext(ctx, "campaign cloned on the web page", "app", app, "campaign", c.ID, "of", id, "by", v.person.Name())
	v.made = c.ID
	a.leadTo(v, "/ui/campaigns/"+c.ID+"/edit", http.StatusOK)
	return nil
}

// copyName names a copy of a campaign in a language. A copy of a copy is called a copy of the first.
func copyName(l *words.Language, c *campaign.View) string {
	before, after, _ := strings.Cut(l.Find(key("Copy of %s")), "%s")
	name := strings.TrimSuffix(strings.TrimPrefix(cmp.Or(strings.TrimSpace(c.Spec.Name), named(c)), before), after)
	return before + clip(name, campaign.MaxName-len([]rune(before+after))) + after
}

// leadTo redirects the browser to another page after an action.
func (a *admin) leadTo(v *visit, path string, status int) {
	v.status = status
	if v.r.Header.Get("HX-Request") != "" {
		v.w.Header().Set("HX-Redirect", path)
		v.w.WriteHeader(status)
		return
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
}

func (a *admin) actOnCampaign(v *visit) error {
	ctx, app, id := v.r.Context(), v.person.App, v.r.PathValue("id")
	var c *campaign.View
	var err error
	switch name := v.r.PathValue("action"); name {
	case "start":
		if c, err = a.Campaigns.Start(ctx, app, id, time.Time{}); err != nil {
			return a.unstartable(v, id, err)
		}
	case "pause":
		c, err = a.Campaigns.Pause(ctx, app, id)
	case "resume":
		c, err = a.Campaigns.Resume(ctx, app, id)
	case "cancel":
		c, err = a.Campaigns.Cancel(ctx, app, id)
	case "recall":
		c, err = a.Campaigns.Recall(ctx, app, id)
	case "decide-a", "decide-b":
		c, err = a.Campaigns.Decide(ctx, app, id, strings.ToUpper(strings.TrimPrefix(name, "decide-")))
	case "retry-unknown":
		if _, err = a.Campaigns.RetryUnknown(ctx, app, id); err == nil {
			c, err = a.Campaigns.Get(ctx, app, id)
		}
	default:
		return mistaken(http.StatusNotFound, "There is no such action.")
	}
	if err != nil {
		return explain(err)
	}
	a.Log.InfoContext(ctx, "campaign changed on the web page", "app", app, "campaign", id, "action", v.r.PathValue("action"), "by", v.person.Name())
	if v.r.Header.Get("HX-Request") == "" {
		a.leadTo(v, "/ui/campaigns/"+id, http.StatusOK)
		return nil
	}
	return a.part(v, "campaign", "progress", a.progress(v, c))
}

// facts lists a campaign's settings, for reading.
func facts(l *words.Language, c *campaign.View) []fact {
	s, asked := &c.Spec, c.Spec.Asked()
	all := []fact{
		{Name: l.T("Template"), Value: templateName(l, s)},
		{Name: l.T("Variables"), Value: clip(variableTexts(s.Variables), 200)},
		{Name: l.T("Channels"), Value: channelNames(l, c)},
		{Name: l.T("Any of the tags"), Value: strings.Join(s.Audience.TagsAny, ", ")},
		{Name: l.T("All of the tags"), Value: strings.Join(s.Audience.TagsAll, ", ")},
		{Name: l.T("Segment"), Value: asked.Segment},
		{Name: l.T("Where"), Value: asked.Where},
		{Name: l.T("Recipients"), Value: clip(strings.Join(s.Audience.Recipients, ", "), 200)},
		{Name: l.T("Endpoints"), Value: clip(strings.Join(s.Audience.Endpoints, ", "), 200)},
		{Name: l.T("At most"), Value: s.Rate.String()},
		{Name: l.T("Variants"), Value: variantWords(l, s)},
		{Name: l.T("Sent at"), Value: localWords(l, s)},
		{Name: l.T("Created"), At: c.CreatedAt},
		{Name: l.T("Not before"), At: c.SendAt},
		{Name: l.T("Started"), At: c.StartedAt},
		{Name: l.T("Ended"), At: c.FinishedAt},
	}
	if g := s.Segment; g != nil {
		name := l.T("The segment’s expression")
		if c.StartedAt.IsZero() {
			name = l.T("The segment’s expression, until it begins")
		}
		all = append(all, fact{Name: name, Value: g.Where})
	}
	if s.Spread > 0 {
		all = append(all, fact{Name: l.T("Spread over"), Value: time.Duration(s.Spread).String()})
	}
	if q := s.Quiet; q != nil {
		all = append(all, fact{Name: l.T("Quiet"), Value: l.T("%[1]s to %[2]s, %[3]s", q.From, q.To, zoneName(l, q))})
	}
	return slices.DeleteFunc(all, func(f fact) bool { return f.Value == "" && f.At.IsZero() })
}

func zoneName(l *words.Language, q *campaign.QuietHours) string {
	if q.Timezone == "" || q.Timezone == "recipient" {
		return l.T("the recipient's time")
	}
	return q.Timezone
}
