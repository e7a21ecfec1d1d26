package admin

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// form holds the values of a campaign's form, as browsers post it, and the problems with them.
type form struct {
	Values   url.Values
	Problems map[string]string // by field name; under "": problems of the whole form
	Focus    string            // the field that gets the focus; empty: the first with a problem
	Kept     string            // settings of the campaign that the form does not show
	Left     string            // the template whose message it was until it was changed
	lang     *words.Language   // nil: English
}

// formTime is the format in which browsers post a date and a time.
const formTime = "2006-01-02T15:04"

// newValues returns the form's values for a campaign that is to be changed. Times are in UTC; the page converts them to the person's own
// zone.
func newValues(s *campaign.Spec, sendAt time.Time) url.Values {
	v, who := messageValues(s), s.Asked()
	if s.Local != nil {
		sendAt = time.Time{} // it follows from the local time
	}
	for name, value := range map[string]string{
		"name": s.Name, "utm": s.UTM, "tags_any": strings.Join(who.TagsAny, ", "), "tags_all": strings.Join(who.TagsAll, ", "),
		"recipients": strings.Join(who.Recipients, "\n"), "endpoints": strings.Join(who.Endpoints, "\n"), "where": who.Where, "segment": who.Segment, "rate": s.Rate.String(), "spread": duration(s.Spread),
		"ttl": duration(s.TTL), "send_at": moment(sendAt), "expires_at": moment(s.Expires), "priority": string(s.Priority), "collapse_key": s.Collapse,
	} {
		v.Set(name, value)
	}
	variantValues(v, s)
	if s.Quiet != nil && s.Quiet.Fallback != "" || s.Local != nil && s.Local.Fallback != "" {
		v.Set("fallback", s.Fallback())
	}
	tick(v, "track", s.Tracked())
	for _, ch := range s.Audience.Channels {
		v.Add("channel", string(ch))
	}
	if q := s.Quiet; q != nil {
		v.Set("quiet_from", q.From)
		v.Set("quiet_to", q.To)
		if q.Timezone != anyZone {
			v.Set("quiet_timezone", q.Timezone)
		}
	}
	return v
}

// messageTicks lists the tick boxes of a message, which browsers post only if they are ticked.
var messageTicks = []string{"silent", "no_preview", "require_interaction"}

// messageValues returns the form's values for a campaign's message, and for its template.
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

// anyZone is the API's time zone for quiet hours in each recipient's own zone.
const anyZone = "recipient"

// samePicture means that Telegram shows the picture that all channels show.
const samePicture, noMedium = "", "none"

func mediumValues(v url.Values, c *campaign.Content) {
	t := c.Telegram
	kind, link := noMedium, ""
	for _, m := range push.TelegramMediums {
		if at := *m.Of(&t); at != "" {
			kind, link = m.Name, at
		}
	}
	if kind == noMedium && c.Image == "" || kind == "photo" && link == c.Image {
		kind, link = samePicture, ""
	}
	lines := make([]string, len(t.Album))
	for i, part := range t.Album {
		lines[i] = part.Type + " " + part.Media
	}
	v.Set("album", strings.Join(lines, "\n"))
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

// duration writes a duration as the API does; zero becomes "".
func duration(d campaign.Duration) string {
	if d == 0 {
		return ""
	}
	b, _ := json.Marshal(d) // a number and a unit
	return strings.Trim(string(b), `"`)
}

// kept names the settings of a campaign that the form does not show, so that nobody thinks them lost.
func kept(l *words.Language, s *campaign.Spec) string {
	var names []string
	if s.Content.FCM != (push.FCMContent{}) {
		names = append(names, l.T("what is for Android alone (fcm)"))
	}
	if s.Content.APNs != (push.APNsContent{}) {
		names = append(names, l.T("what is for Apple's devices alone (apns)"))
	}
	if s.Content.Activity != nil {
		names = append(names, l.T("the Live Activity that it starts (live_activity)"))
	}
	return strings.Join(names, ", ")
}

// labels holds the fields' labels by name; fields in lists are named without their number.
var labels = map[string]string{
	"name": "Name", "template": "Template", "variables": "Variables", "channel": "Channels", "title": "Title", "body": "Text", "url": "Link", "icon": "Icon", "image": "Picture", "utm": "UTM suffix",
	"category": "Category", "language": "The language above", "data": "Data (JSON)", "tags_any": "With any of these tags", "tags_all": "With all of these tags", "where": "And where", "description": "Whom it picks, in words", "segment": "In the segment",
	"recipients": "Only these recipients", "endpoints": "Only these endpoints", "send_at": "Not before", "expires_at": "Over at", "rate": "At most", "spread": "Spread over",
	"ttl": "Tried for", "priority": "Priority", "collapse_key": "Collapse key", "quiet_from": "Quiet from", "quiet_to": "Quiet to",
	"quiet_timezone": "Time zone of quiet hours", "fallback": "Zone of whom none is known", "parse_mode": "Title and text are",
	"media": "Beside the text", "media_url": "Its URL, or the id of a file", "album": "Album", "silent": "No sound", "no_preview": "No preview of links",
	"require_interaction": "Stays until it is closed", "track": "Count views and clicks",
	"button-text": "Label", "button-url": "Opens", "button-callback": "Or reports as", "button-ack": "Acknowledges the notification", "button-beside": "Beside the one before",
	"action-title": "Label", "action-url": "Opens", "action-icon": "Icon", "action-action": "Name for your page's script",
	"locale-tag": "Language", "locale-title": "Title", "locale-body": "Text", "locale-icon": "Icon", "locale-image": "Picture", "locale-url": "Link",
	"b_template": "Template of variant B", "b_title": "Title of B", "b_body": "Text of B", "b_url": "Link of B", "b_image": "Picture of B", "share_a": "A goes to, in percent", "share_b": "B goes to, in percent",
	"metric": "The better one has", "decide_after": "Decided after", "local_at": "Or at this time where each recipient is", "local_passed": "Where it has passed",
	"locale-data": "Data (JSON)", "to": "To", "ack": "Done when", "step": "Steps", "step-channel": "Channel", "step-after": "After",
}

// label returns the label beside a field.
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

// labelIn returns the label beside a field in a language. Variables keep the names that their author gave them.
func labelIn(l *words.Language, name string) string {
	if variable, ok := variableOf(name); ok {
		return variable
	}
	return l.T(label(name))
}

// fullLabel returns a field's label for use elsewhere on the page.
func fullLabel(l *words.Language, name string) string {
	if list, n, _, ok := listed(name); ok {
		own := labelIn(l, name)
		if l == words.English { // German nouns, among others, keep their capitals
			own = strings.ToLower(own)
		}
		return lineLabel(l, list, n) + ", " + own
	}
	if variable, ok := variableOf(name); ok {
		return l.T("Variable %s", variable)
	}
	return labelIn(l, name)
}

// speaks returns the language of a form.
func (f *form) speaks() *words.Language {
	if f.lang == nil {
		return words.English
	}
	return f.lang
}
