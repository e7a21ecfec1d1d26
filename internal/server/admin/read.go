package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// reading is a posted form that is being read into a campaign.
type reading struct {
	form
	spec    campaign.Spec
	sendAt  time.Time
	buttons map[string][][2]int // by list of buttons: the row and the column of each line
	more    bool                // the person asked for another line of a list
	correct bool                // the form corrects sent messages: it has a message and nothing else
}

// readForm reads a posted campaign. It reads a change into the campaign as it was, so that settings missing in the form stay. An unreadable
// value is a problem of its field.
func (a *admin) readForm(v *visit, was *campaign.View) (*reading, error) {
	if err := parseForm(v.r); err != nil {
		return nil, err
	}
	f := newReading(v.lang, v.r.PostForm)
	if was != nil {
		f.spec = was.Spec
		if f.correct = f.Values.Has("correct"); f.correct {
			f.spec = saysNow(&was.Spec)
		}
	}
	f.clean()
	f.more = f.addLine(compact(f.Values))
	if err := a.takeTemplate(v, f); err != nil {
		return nil, err
	}
	f.Kept = kept(f.speaks(), &f.spec)
	before := f.spec
	f.message()
	if f.correct {
		return f, nil
	}
	f.audience()
	f.pace(was)
	f.readLocal()
	if f.text("fallback") != "" && f.spec.Quiet == nil && f.spec.Local == nil {
		f.blame("fallback", "is for quiet hours and for a time of the day, and there is neither")
	}
	return f, a.readVariants(v, f, &before)
}

func newReading(l *words.Language, values url.Values) *reading {
	return &reading{form: form{Values: values, lang: l, Problems: make(map[string]string)}, buttons: make(map[string][][2]int)}
}

// message reads the campaign's content. Unchanged fields keep their stored value.
func (f *reading) message() {
	shown := newReading(f.lang, messageValues(&f.spec))
	shown.clean()
	shown.content()
	was := f.spec.Content
	f.content()
	same := saidBy(&f.spec) == saidBy(&shown.spec)
	if same {
		f.spec.Content = was
	}
	f.ofTemplate(same)
	f.variables()
}

// saidBy returns the part of a campaign's message that the form shows, to detect changes.
func saidBy(s *campaign.Spec) string {
	c := s.Content
	c.FCM, c.APNs, c.Activity = push.FCMContent{}, push.APNsContent{}, nil // the form has none
	b, _ := json.Marshal(c)                                                // never fails: stored content is JSON, and the form's content was read as JSON
	return string(b)
}

// parseForm reads a posted form of at most maxForm bytes.
func parseForm(r *http.Request) error {
	err := r.ParseForm()
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return mistaken(http.StatusRequestEntityTooLarge, "The form has more than %s KB. Go back: what was typed is still there. Shorten it.", maxForm>>10)
	case err != nil:
		return mistaken(http.StatusBadRequest, "The form could not be read.")
	}
	return nil
}

// clean reports invalid text and control characters and removes them, so that the rest can be shown again.
func (f *reading) clean() {
	for name, values := range f.Values {
		for i, s := range values {
			s = strings.ReplaceAll(s, "\r\n", "\n") // browsers post line breaks as CRLF
			if !utf8.ValidString(s) {
				f.blame(name, "is not text in UTF-8; what is none was taken out")
				s = strings.ToValidUTF8(s, "")
			}
			if strings.ContainsFunc(s, control) {
				f.blame(name, "has control characters, which were taken out")
				s = strings.Map(func(r rune) rune {
					if control(r) {
						return -1
					}
					return r
				}, s)
			}
			values[i] = s
		}
	}
}

func control(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// asItIs is the text of a problem that is in the words of the API, which are English.
const asItIs = "%s"

// blame records a field's first problem, whose text takes its arguments with %s; if no field has the name, the problem is the whole form's.
func (f *form) blame(name, format string, args ...any) {
	if label(name) == "" {
		name = ""
	}
	if f.Problems[name] == "" {
		f.Problems[name] = problemText(f.speaks(), format, args)
	}
}

// problemText says a problem in a language.
func problemText(l *words.Language, format string, args []any) string {
	if format != asItIs {
		return l.T(sentence(format), args...)
	}
	switch e := args[0].(type) {
	case *notification.FieldError:
		return fieldProblem(l, e)
	case *campaign.StateError:
		return stateProblem(e).in(l)
	}
	return problemIn(l, fmt.Sprint(args...))
}

func (f *reading) text(name string) string { return text(f.Values, name) }

func (f *reading) content() {
	c := &f.spec.Content
	c.Title, c.Body, c.URL, c.Icon, c.Image = f.text("title"), f.text("body"), f.text("url"), f.text("icon"), f.text("image")
	c.Category, c.Language, c.Data = f.text("category"), f.text("language"), f.json("data")
	c.Telegram = push.TelegramContent{ParseMode: f.text("parse_mode"), Silent: f.Values.Has("silent"), NoPreview: f.Values.Has("no_preview")}
	f.medium(c)
	c.Telegram.Buttons = f.readButtons("button")
	c.WebPush.RequireInteraction, c.WebPush.Actions = f.Values.Has("require_interaction"), f.readActions("action")
	c.Locales = f.readLocales()
	if c.Title == "" && c.Body == "" && c.Telegram.Sticker == "" {
		f.blame("title", unwritten)
	}
}

func (f *reading) json(name string) json.RawMessage {
	s := f.text(name)
	if s == "" {
		return nil
	}
	if !json.Valid([]byte(s)) {
		f.blame(name, `is not JSON; write it like {"station":"north"}`)
		return nil
	}
	return json.RawMessage(s)
}

func (f *reading) medium(c *campaign.Content) {
	c.Telegram.Album = f.album()
	kind, link := f.text("media"), f.text("media_url")
	switch i := slices.IndexFunc(push.TelegramMediums, func(m push.TelegramMedium) bool { return m.Name == kind }); {
	case i >= 0 && link == "":
		f.blame("media_url", "is needed: the URL of the file, or its id in Telegram")
	case i >= 0:
		*push.TelegramMediums[i].Of(&c.Telegram) = link
	case kind != samePicture && kind != noMedium:
		f.blame("media", "%.40q is none of photo, video, animation, audio, document, sticker", kind)
	case link != "":
		f.blame("media", "say what is at the URL: a photo, a video, an animation, an audio file, a document or a sticker")
	case kind == samePicture && c.Telegram.Album == nil:
		c.Telegram.Photo = c.Image
	}
}

// album reads one medium a line: its type and its URL or file id.
func (f *reading) album() (parts []push.TelegramMedia) {
	for line := range strings.Lines(f.text("album")) {
		if words := strings.Fields(line); len(words) == 2 {
			parts = append(parts, push.TelegramMedia{Type: words[0], Media: words[1]})
		} else if len(words) > 0 {
			f.blame("album", "write each line like: photo https://example.org/1.jpg")
		}
	}
	return parts
}

func (f *reading) readButtons(list string) (rows [][]push.TelegramLink) {
	for n := range f.filled(list) {
		b := push.TelegramLink{Text: f.text(lineField(list, n, "text")), URL: f.text(lineField(list, n, "url"))}
		b.Callback, b.Ack = f.text(lineField(list, n, "callback")), f.Values.Has(lineField(list, n, "ack"))
		if !f.Values.Has(lineField(list, n, "beside")) || len(rows) == 0 {
			rows = append(rows, nil)
		}
		last := &rows[len(rows)-1]
		f.buttons[list] = append(f.buttons[list], [2]int{len(rows) - 1, len(*last)})
		*last = append(*last, b)
	}
	return rows
}

func (f *reading) readActions(list string) (actions []push.Action) {
	for n := range f.filled(list) {
		at := func(name string) string { return f.text(lineField(list, n, name)) }
		a := push.Action{Action: at("action"), Title: at("title"), Icon: at("icon"), URL: at("url")}
		if a.Action == "" { // browsers distinguish buttons by their action
			a.Action = "button-" + strconv.Itoa(n+1)
		}
		actions = append(actions, a)
	}
	return actions
}

func (f *reading) readLocales() map[string]template.Variant {
	all := make(map[string]template.Variant)
	for n := range f.filled("locale") {
		at := func(name string) string { return lineField("locale", n, name) }
		tag := f.text(at("tag"))
		if tag == "" {
			f.blame(at("tag"), "say which language this is, like fr or fr-CA")
			continue
		}
		if _, twice := all[tag]; twice {
			f.blame(at("tag"), "%.40s is there twice", tag)
			continue
		}
		l := template.Variant{
			Title: f.text(at("title")), Body: f.text(at("body")), Icon: f.text(at("icon")), Image: f.text(at("image")), URL: f.text(at("url")), Data: f.json(at("data")),
		}
		if rows := f.readButtons(at("button")); rows != nil {
			l.Telegram = &template.VariantTelegram{Buttons: rows}
		}
		if actions := f.readActions(at("action")); actions != nil {
			l.WebPush = &template.VariantWebPush{Actions: actions}
		}
		all[tag] = l
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (f *reading) audience() {
	who := audience.Audience{
		TagsAny: commaList(f.Values, "tags_any"), TagsAll: commaList(f.Values, "tags_all"), Where: f.text("where"), Segment: f.text("segment"),
		Recipients: namesIn(f.Values.Get("recipients")), Endpoints: namesIn(f.Values.Get("endpoints")),
	}
	for _, ch := range f.Values["channel"] {
		who.Channels = append(who.Channels, push.Channel(ch))
	}
	f.spec.Audience, f.spec.Segment = who, nil // saving looks the segment up
}

// namesIn reads a list of names separated by line breaks or commas.
func namesIn(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
}

// pace reads the time and the rate of sending. Unchanged fields keep their stored value: the form shows less precision than the API
// accepts.
func (f *reading) pace(was *campaign.View) {
	s := &f.spec
	track := f.Values.Has("track")
	s.Name, s.UTM, s.Track, s.Collapse, s.Priority = f.text("name"), f.text("utm"), &track, f.text("collapse_key"), push.Urgency(f.text("priority"))
	s.Rate = 0
	if text := f.text("rate"); text != "" {
		var err error
		if s.Rate, err = campaign.ParseRate(text); err != nil {
			f.blame("rate", asItIs, err)
		}
	}
	s.Spread, s.TTL = f.duration("spread", s.Spread), f.duration("ttl", s.TTL)
	s.Quiet = readQuiet(f.Values, s.Quiet)
	var sendAt time.Time
	if was != nil {
		sendAt = was.SendAt
	}
	f.sendAt, s.Expires = f.time("send_at", sendAt), f.time("expires_at", s.Expires)
	f.Values.Set("timezone", "UTC") // the form is shown again with its times in UTC, like all times
}

func (f *reading) duration(name string, was campaign.Duration) campaign.Duration {
	switch text := f.text(name); text {
	case "":
		return 0
	case duration(was):
		return was
	default:
		d, err := notification.ParseDuration(text)
		if err != nil {
			f.blame(name, "%.40q is not a duration; write it like 30s, 24h or 7d", text)
		}
		return campaign.Duration(d)
	}
}

func readQuiet(f url.Values, was *campaign.QuietHours) *campaign.QuietHours {
	q := campaign.QuietHours{From: text(f, "quiet_from"), To: text(f, "quiet_to"), Timezone: text(f, "quiet_timezone")}
	if q == (campaign.QuietHours{}) {
		return nil
	}
	q.Fallback = text(f, "fallback")
	if q.Timezone == "" && (was == nil || was.Timezone != "") {
		q.Timezone = anyZone
	}
	return &q
}

// time reads a date and a time in the browser's time zone.
func (f *reading) time(name string, was time.Time) time.Time {
	s := f.text(name)
	if s == "" {
		return time.Time{}
	}
	zone, err := time.LoadLocation(f.text("timezone")) // without one: UTC
	if err != nil || zone == time.Local {
		f.blame(name, "the browser's time zone is not known here. Set the computer to another one, or use the API")
		return time.Time{}
	}
	wall, err := time.Parse(formTime, s)
	if err != nil {
		f.blame(name, "%.40q is not a date and a time", s)
		return time.Time{}
	}
	at := quiet.At(wall, zone).UTC()
	if was.In(zone).Format(formTime) == wall.Format(formTime) { // it stays, to its second, also in an hour that clocks show twice
		at = was
	}
	f.Values.Set(name, moment(at))
	return at
}

func text(f url.Values, name string) string { return strings.TrimSpace(f.Get(name)) }

// commaList reads a list separated by commas.
func commaList(f url.Values, name string) (list []string) {
	for w := range strings.SplitSeq(f.Get(name), ",") {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list
}
