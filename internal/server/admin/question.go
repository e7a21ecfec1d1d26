package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// outlook describes a campaign before it is sent: its reach by channel, its pace, and its end.
type outlook struct {
	reached               // over all channels together
	By      []reachedOver // the channels that reach somebody
	Rate    campaign.Rate // as asked for; 0: none was
	Took    time.Duration // 0: not known
	Spread  time.Duration
	Begin   time.Time     // zero: at once
	End     time.Time     // zero: not known
	Lasts   time.Duration // from the press of Send to End, if nothing puts off a message; else 0
	Latest  time.Time     // where it is quiet then; zero: no later
	Decides bool          // the end depends on a decision between variants
}

// reachedOver is the number of addresses that a campaign reaches over one channel.
type reachedOver struct {
	Channel push.Channel
	Count   int64
}

// outlook counts whom a campaign reaches over its channels, for at most lookFor, and estimates how long its messages take.
func (a *admin) outlook(v *visit, s *campaign.Spec, sendAt time.Time) (o outlook, err error) {
	ctx, app := v.r.Context(), v.person.App
	channels, err := a.Campaigns.Sendable(ctx, app, *s, sendAt)
	if err != nil {
		return o, err
	}
	until := a.now().Add(lookFor)
	for _, ch := range channels {
		who := s.Asked()
		who.Channels = []push.Channel{ch}
		n, err := a.reachUntil(v, &who, until)
		if err != nil {
			return o, err
		}
		if o.Count, o.Looked = o.Count+n.Count, o.Looked+n.Looked; n.Count > 0 {
			o.By = append(o.By, reachedOver{ch, n.Count})
		}
	}
	if o.Rate, o.Spread = s.Rate, time.Duration(s.Spread); sendAt.After(a.now()) {
		o.Begin = sendAt
	}
	o.estimate(s, a.Campaigns.Paces(ctx, app, channels))
	o.end(a.now(), s)
	return o, nil
}

// end estimates when the last message is sent.
func (o *outlook) end(now time.Time, s *campaign.Spec) {
	if from, to, ok := s.LocalSpan(now); ok {
		o.Begin = from
		o.End, o.Latest = s.End(to, 0)
		return
	}
	lasts := max(o.Took, o.Spread)
	if o.Decides = s.Decides(); lasts == 0 || o.Looked > 0 || o.Decides {
		return
	}
	begin := now
	if o.Begin.After(now) {
		begin = o.Begin
	}
	if o.End, o.Latest = s.End(begin, o.Took); o.End.Equal(now.Add(lasts)) {
		o.Lasts = lasts
	}
}

// ends says when the last message is sent. A campaign that is sent at once ends so long after the press of Send, however long the question
// stays open.
func (o *outlook) ends(l *words.Language) any {
	at := func(t time.Time) template.HTML { return timeElement(t, l.Time(t)) }
	switch {
	case o.Lasts > 0 && o.Latest.IsZero():
		return l.T("about %s after you send it", l.Lasted(o.Lasts))
	case o.Lasts > 0:
		return said(l, l.Find(key("about %[1]s after you send it; where it is quiet then, %[2]s at the latest")), []any{l.Lasted(o.Lasts), at(o.Latest)})
	case !o.End.IsZero() && o.Latest.IsZero():
		return said(l, l.Find(key("about %s")), []any{at(o.End)})
	case !o.End.IsZero():
		return said(l, l.Find(key("about %[1]s; where it is quiet then, %[2]s at the latest")), []any{at(o.End), at(o.Latest)})
	case o.Decides:
		return l.T("some time after the decision between the variants")
	case o.Looked > 0:
		return l.T("not known before: not everybody was counted")
	}
	return l.T("not known before: no provider of these says how fast it takes messages")
}

// estimate finds how long the messages take, once all whom they reach are counted.
func (o *outlook) estimate(s *campaign.Spec, paces map[push.Channel]float64) {
	if o.Looked > 0 || o.Count == 0 {
		return
	}
	messages := make(map[push.Channel]int64, len(o.By))
	for _, by := range o.By {
		messages[by.Channel] = by.Count
	}
	o.Took = s.Needs(messages, paces)
}

// question asks whether the campaign shall be sent.
func (o *outlook) question(l *words.Language) string {
	if o.Count == 0 && o.Looked == 0 {
		return l.T("It reaches nobody now. Start it all the same?")
	}
	q := o.whom(l)
	switch {
	case o.Took > 0 && o.Rate > 0:
		q += l.T(", about %[1]s at %[2]s", l.Lasted(o.Took), rateWords(l, o.Rate))
	case o.Took > 0:
		q += l.T(", about %s", l.Lasted(o.Took))
	}
	if o.Spread > 0 {
		q += l.T(", within %s", l.Lasted(o.Spread))
	}
	if !o.Begin.IsZero() {
		q += l.T(", beginning %s", l.Time(o.Begin))
	}
	return l.T("%s?", q)
}

// whom begins the question with the number of addresses, and over what they are reached.
func (o *outlook) whom(l *words.Language) string {
	over := make([]string, len(o.By))
	for i, by := range o.By {
		over[i] = l.T("%[1]s over %[2]s", by.Count, l.T(channelWord(by.Channel)))
	}
	switch {
	case len(over) == 1 && o.Looked == 0:
		return l.N(o.Count, "Send it to %[1]s address over %[2]s", "Send it to %[1]s addresses over %[2]s", l.T(channelWord(o.By[0].Channel)))
	case len(over) == 1:
		return l.N(o.Count, "Send it to at least %[1]s address over %[2]s", "Send it to at least %[1]s addresses over %[2]s", l.T(channelWord(o.By[0].Channel)))
	case len(over) > 1 && o.Looked == 0:
		return l.N(o.Count, "Send it to %[1]s address: %[2]s", "Send it to %[1]s addresses: %[2]s", strings.Join(over, ", "))
	case len(over) > 1:
		return l.N(o.Count, "Send it to at least %[1]s address: %[2]s", "Send it to at least %[1]s addresses: %[2]s", strings.Join(over, ", "))
	case o.Looked > 0:
		return l.N(o.Count, "Send it to at least %s address", "Send it to at least %s addresses")
	}
	return l.N(o.Count, "Send it to %s address", "Send it to %s addresses")
}

// rateWords writes a rate for people: 30 a second.
func rateWords(l *words.Language, r campaign.Rate) string {
	for unit, said := range map[string]string{"/s": key("%s a second"), "/m": key("%s a minute"), "/h": key("%s an hour")} {
		if n, ok := strings.CutSuffix(r.String(), unit); ok {
			return l.T(said, n)
		}
	}
	return r.String()
}

// confirmation is the part of the form that asks before a campaign is sent. The server shows it after it has checked the form.
type confirmation struct {
	outlook
	Question string
	Changed  bool // the form was changed after it was asked
	Quiet    string
	Variants string
	Local    string
	Asked    string // what the question was about: see asked
}

// unasked are the fields that say nothing about the campaign.
var unasked = []string{"then", "asked", "timezone", "key", "id", "seen"}

// asked returns a fingerprint of the form's values, so that a confirmation holds for these alone.
func (f *form) asked() string {
	about := make(url.Values)
	for name, values := range f.Values {
		values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(values) > 0 && !slices.Contains(unasked, name) {
			about[name] = values
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(about)) {
		for _, value := range about[name] {
			fmt.Fprintf(&b, "%q %q\n", name, strings.TrimSpace(value))
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// ask shows the form with the question whether it shall be sent.
func (a *admin) ask(v *visit, f *reading, was *campaign.View) error {
	o, err := a.outlook(v, &f.spec, f.sendAt)
	if err != nil {
		status, ok := f.refused(err)
		if !ok {
			return explain(err)
		}
		return a.form(v, status, newCompose(f, was))
	}
	c := newCompose(f, was)
	c.Ask = &confirmation{outlook: o, Question: o.question(v.lang), Changed: f.text("then") == "start", Asked: f.asked()}
	c.Ask.Variants, c.Ask.Local = variantWords(v.lang, &f.spec), localWords(v.lang, &f.spec)
	if q := f.spec.Quiet; q != nil {
		c.Ask.Quiet = v.t("%[1]s to %[2]s, %[3]s", q.From, q.To, zoneName(v.lang, q))
	}
	return a.form(v, http.StatusOK, c)
}
