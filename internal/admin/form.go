package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/push"
)

// fields are what stands in the form of a campaign.
type fields struct {
	Name, Title, Body, URL, Icon, Image, UTM string
	TagsAny, TagsAll, Where                  string
	SendAt, Rate, QuietFrom, QuietTo         string
	Silent, RequireInteraction, Track        bool
	Kept                                     string // what the campaign has and the form does not show
}

// formTime is how browsers write a date and a time.
const formTime = "2006-01-02T15:04"

// newFields are those of a campaign that is to be changed. Its time is in UTC; the page shows it in the person's own.
func newFields(s *campaign.Spec, sendAt time.Time) fields {
	c := &s.Content
	f := fields{
		Name: s.Name, Title: c.Title, Body: c.Body, URL: c.URL, Icon: c.Icon, Image: c.Image, UTM: s.UTM,
		TagsAny: strings.Join(s.Audience.TagsAny, ", "), TagsAll: strings.Join(s.Audience.TagsAll, ", "), Where: s.Audience.Where,
		Rate: s.Rate.String(), Silent: c.Telegram.Silent, RequireInteraction: c.WebPush.RequireInteraction, Track: s.Tracked(), Kept: kept(s),
	}
	if !sendAt.IsZero() {
		f.SendAt = sendAt.UTC().Format(formTime)
	}
	if s.Quiet != nil {
		f.QuietFrom, f.QuietTo = s.Quiet.From, s.Quiet.To
	}
	return f
}

// kept names what a campaign has that only the API can say, so that nobody thinks it lost.
func kept(s *campaign.Spec) string {
	c := &s.Content
	var names []string
	for tag := range c.Locales {
		names = append(names, "language "+tag)
	}
	slices.Sort(names)
	t := c.Telegram
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"Telegram's buttons", len(t.Buttons) > 0},
		{"Telegram's parse mode " + t.ParseMode, t.ParseMode != ""},
		{"Telegram's own picture, video or file", ownMedia(c)},
		{"the browser's buttons", len(c.WebPush.Actions) > 0},
		{"data", len(c.Data) > 0},
		{"category " + c.Category, c.Category != ""},
		{"named recipients", len(s.Audience.Recipients) > 0},
		{"spread over " + time.Duration(s.Spread).String(), s.Spread > 0},
		{"time to live", s.TTL > 0},
		{"end", !s.Expires.IsZero()},
		{"priority " + string(s.Priority), s.Priority != ""},
		{"collapse key " + s.Collapse, s.Collapse != ""},
	} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// ownMedia reports whether a message has other media in Telegram than elsewhere.
func ownMedia(c *campaign.Content) bool {
	t := &c.Telegram
	return t.Video != "" || t.Animation != "" || t.Document != "" || t.Photo != c.Image
}

// readForm reads a posted campaign into what it was, if it is changed: what the form cannot say stays, and can be said by
// the API.
func readForm(r *http.Request, spec campaign.Spec) (_ campaign.Spec, sendAt time.Time, err error) {
	if err := r.ParseForm(); err != nil {
		return spec, sendAt, &mistake{http.StatusBadRequest, "The form could not be read."}
	}
	f := r.PostForm
	c := &spec.Content
	own := ownMedia(c)
	c.Title, c.Body, c.URL, c.Icon, c.Image = text(f, "title"), text(f, "body"), text(f, "url"), text(f, "icon"), text(f, "image")
	c.Telegram.Silent, c.WebPush.RequireInteraction = f.Has("silent"), f.Has("require_interaction")
	if !own {
		c.Telegram.Photo = c.Image
	}
	track := f.Has("track")
	spec.Name, spec.UTM, spec.Track = text(f, "name"), text(f, "utm"), &track
	spec.Audience = audience.Audience{
		TagsAny: words(f, "tags_any"), TagsAll: words(f, "tags_all"), Where: text(f, "where"), Recipients: spec.Audience.Recipients,
	}
	for _, ch := range f["channel"] {
		spec.Audience.Channels = append(spec.Audience.Channels, push.Channel(ch))
	}
	if s := text(f, "rate"); s == "" {
		spec.Rate = 0
	} else if spec.Rate, err = campaign.ParseRate(s); err != nil {
		return spec, sendAt, &mistake{http.StatusUnprocessableEntity, "At most: " + err.Error() + "."}
	}
	spec.Quiet = readQuiet(f, spec.Quiet)
	sendAt, err = readTime(f)
	return spec, sendAt, err
}

func readQuiet(f url.Values, was *campaign.QuietHours) *campaign.QuietHours {
	from, to := text(f, "quiet_from"), text(f, "quiet_to")
	if from == "" && to == "" {
		return nil
	}
	q := campaign.QuietHours{Timezone: "recipient"}
	if was != nil {
		q = *was
	}
	q.From, q.To = from, to
	return &q
}

// readTime reads when a campaign is to be sent, in the time zone that the browser is in.
func readTime(f url.Values) (time.Time, error) {
	s := text(f, "send_at")
	if s == "" {
		return time.Time{}, nil
	}
	zone, err := time.LoadLocation(text(f, "timezone")) // without one: UTC
	if err != nil || zone == time.Local {
		return time.Time{}, &mistake{http.StatusUnprocessableEntity, "Not before: the browser's time zone is not known here. Set the computer to another one, or use the API."}
	}
	at, err := time.ParseInLocation(formTime, s, zone)
	if err != nil {
		return time.Time{}, &mistake{http.StatusUnprocessableEntity, "Not before: " + s + " is not a date and a time."}
	}
	return at.UTC(), nil
}

func text(f url.Values, name string) string { return strings.TrimSpace(f.Get(name)) }

// words reads a list with commas.
func words(f url.Values, name string) (list []string) {
	for w := range strings.SplitSeq(f.Get(name), ",") {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list
}
