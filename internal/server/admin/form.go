package admin

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// form is what stands in the form of a campaign, as browsers post it, and what is wrong with it.
type form struct {
	Values   url.Values
	Problems map[string]string // by the name of the field; of "": with the whole
	Focus    string            // the field that the person is led to; empty: the first with a problem
	Kept     string            // what the campaign has and the form does not show
	Left     string            // the template that the message was of until it was changed
}

// formTime is how browsers write a date and a time.
const formTime = "2006-01-02T15:04"

// medium is what a message of Telegram carries beside its text: one at most.
type medium struct {
	name string
	of   func(*push.TelegramContent) *string
}

var media = []medium{
	{"photo", func(t *push.TelegramContent) *string { return &t.Photo }},
	{"video", func(t *push.TelegramContent) *string { return &t.Video }},
	{"animation", func(t *push.TelegramContent) *string { return &t.Animation }},
	{"document", func(t *push.TelegramContent) *string { return &t.Document }},
}

// newValues are those of a campaign that is to be changed. Times are in UTC; the page shows them in the person's own zone.
func newValues(s *campaign.Spec, sendAt time.Time) url.Values {
	v := messageValues(s)
	for name, value := range map[string]string{
		"name": s.Name, "utm": s.UTM, "tags_any": strings.Join(s.Audience.TagsAny, ", "), "tags_all": strings.Join(s.Audience.TagsAll, ", "),
		"recipients": strings.Join(s.Audience.Recipients, "\n"), "endpoints": strings.Join(s.Audience.Endpoints, "\n"), "where": s.Audience.Where, "rate": s.Rate.String(), "spread": duration(s.Spread),
		"ttl": duration(s.TTL), "send_at": moment(sendAt), "expires_at": moment(s.Expires), "priority": string(s.Priority), "collapse_key": s.Collapse,
	} {
		v.Set(name, value)
	}
	tick(v, "track", s.Tracked())
	for _, ch := range s.Audience.Channels {
		v.Add("channel", string(ch))
	}
	if q := s.Quiet; q != nil {
		v.Set("quiet_from", q.From)
		v.Set("quiet_to", q.To)
		v.Set("quiet_fallback", q.Fallback)
		if q.Timezone != anyZone {
			v.Set("quiet_timezone", q.Timezone)
		}
	}
	return v
}

// messageTicks are the fields of a message that are there only if they are on.
var messageTicks = []string{"silent", "no_preview", "require_interaction"}

// messageValues are those of what a campaign says, and of the template that it says it by.
func messageValues(s *campaign.Spec) url.Values {
	v := make(url.Values)
	c := &s.Content
	for name, value := range map[string]string{
		"title": c.Title, "body": c.Body, "url": c.URL, "icon": c.Icon, "image": c.Image, "category": c.Category, "language": c.Language,
		"data": string(c.Data), "parse_mode": c.Telegram.ParseMode,
	} {
		v.Set(name, value)
	}
	for i, on := range []bool{c.Telegram.Silent, c.Telegram.NoPreview, c.WebPush.RequireInteraction} {
		tick(v, messageTicks[i], on)
	}
	mediumValues(v, c)
	contentLists(v, c)
	templateValues(v, s)
	return v
}

// anyZone is how the API says that quiet hours are those of the recipient's own day.
const anyZone = "recipient"

// samePicture says that Telegram's photo is the picture that all channels show.
const samePicture, noMedium = "", "none"

func mediumValues(v url.Values, c *campaign.Content) {
	t := c.Telegram
	kind, link := noMedium, ""
	for _, m := range media {
		if at := *m.of(&t); at != "" {
			kind, link = m.name, at
		}
	}
	if kind == noMedium && c.Image == "" || kind == "photo" && link == c.Image {
		kind, link = samePicture, ""
	}
	v.Set("media", kind)
	v.Set("media_url", link)
}

func tick(v url.Values, name string, on bool) {
	if on {
		v.Set(name, "on")
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(formTime)
}

// duration writes one as the API does; none is empty.
func duration(d campaign.Duration) string {
	if d == 0 {
		return ""
	}
	b, _ := json.Marshal(d) // a number and a unit
	return strings.Trim(string(b), `"`)
}

// kept names what a campaign has that only the API can say, so that nobody thinks it lost.
func kept(s *campaign.Spec) string {
	var names []string
	if s.Content.FCM != (push.FCMContent{}) {
		names = append(names, "what is for Android alone (fcm)")
	}
	if s.Content.APNs != (push.APNsContent{}) {
		names = append(names, "what is for Apple's devices alone (apns)")
	}
	return strings.Join(names, ", ")
}

// words for people, by the names of fields; those of lists by the names without their number.
var labels = map[string]string{
	"name": "Name", "template": "Template", "variables": "Variables", "channel": "Channels", "title": "Title", "body": "Text", "url": "Link", "icon": "Icon", "image": "Picture", "utm": "UTM suffix",
	"category": "Category", "language": "The language above", "data": "Data (JSON)", "tags_any": "With any of these tags", "tags_all": "With all of these tags", "where": "And where",
	"recipients": "Only these recipients", "endpoints": "Only these endpoints", "send_at": "Not before", "expires_at": "Over at", "rate": "At most", "spread": "Spread over",
	"ttl": "Tried for", "priority": "Priority", "collapse_key": "Collapse key", "quiet_from": "Quiet from", "quiet_to": "Quiet to",
	"quiet_timezone": "Time zone of quiet hours", "quiet_fallback": "Time zone of whom none is known", "parse_mode": "Title and text are",
	"media": "Beside the text", "media_url": "Its URL, or the id of a file", "silent": "No sound", "no_preview": "No preview of links",
	"require_interaction": "Stays until it is closed", "track": "Count views and clicks",
	"button-text": "Label", "button-url": "Opens", "button-beside": "Beside the one before",
	"action-title": "Label", "action-url": "Opens", "action-icon": "Icon", "action-action": "Name for your page's script",
	"locale-tag": "Language", "locale-title": "Title", "locale-body": "Text", "locale-icon": "Icon", "locale-image": "Picture", "locale-url": "Link",
	"locale-data": "Data (JSON)", "to": "To", "ack": "Done when", "step": "Steps", "step-channel": "Channel", "step-after": "After",
}

// label is what a field is called beside it.
func label(name string) string {
	if list, _, field, ok := listed(name); ok {
		if _, own, in := ofLanguage(list); in {
			list = own
		}
		return labels[list+"-"+field]
	}
	if variable, ok := variableOf(name); ok {
		return variable
	}
	return labels[name]
}

// fullLabel is what a field is called elsewhere on the page.
func fullLabel(name string) string {
	if list, n, _, ok := listed(name); ok {
		return lineLabel(list, n) + ", " + strings.ToLower(label(name))
	}
	if variable, ok := variableOf(name); ok {
		return "Variable " + variable
	}
	return label(name)
}
