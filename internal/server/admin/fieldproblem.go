package admin

import (
	"fmt"
	"regexp"
	"slices"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/words"
)

// problemsOfFields are the problems of the API that forms of people show who do not operate servers. They are said in all languages, the
// others in English.
var problemsOfFields = []string{
	key("Is required."),
	key("Is required: it is what the button says."),
	key("Is required: an expression like city = \"Oslo\" and age >= 18."),
	key("Is required, or %s.body: an empty message says nothing."),
	key("Is required with quiet_hours, like Europe/Oslo."),
	key("Has %s bytes; at most %s are allowed."),
	key("Has %s members; at most %s are allowed."),
	key("Has %s recipients; at most %s are allowed."),
	key("Has %s media; an album has %s to %s."),
	key("Has %s, which is the language of the content itself."),
	key("Has more than %s languages."),
	key("Lies in the past."),
	key("Lies before the campaign begins."),
	key("Is more than a year ahead."),
	key("Is more than %s ahead."),
	key("Is more than %s."),
	key("Is the same as from: that would be the whole day or none of it."),
	key("Is too much: both variants together have %s percent."),
	key("Is missing: template %s says {{%s}}."),
	key("Is missing: without a message of its own the second variant is the first."),
	key("Is missing: say how long after both variants were sent the rest gets the better one."),
	key("Is not valid UTF-8 text."),
	key("Is not valid JSON although content_type is %s."),
	key("Contains a NUL character."),
	key("Must be text of at most %s characters."),
	key("Must be text of at most %s bytes."),
	key("Must be text of 1 to %s bytes."),
	key("Must be positive."),
	key("Must not be negative."),
	key("Must be from 1/h to %s/s."),
	key("Must be from 1 to 99 percent of the audience."),
	key("Must be on: without it nobody's reaction is counted, and the better variant stays unknown."),
	key("Must have 1 to %s buttons, and all rows together at most %s."),
	key("Cannot stand beside url: a button does one of both."),
	key("Names a channel twice."),
	key("Channel %s cannot be sent to by this server."),
	key("Clicks cannot be counted in Telegram without buttons that report, or links and the server's public_url."),
	key("Shown cannot be counted in Telegram, which tells of no message that it shows."),
	key("The campaign's time is over."),
	key("The album of a message that was sent stays: leave it out, or give the same."),
	key("The %s of a message that was sent stays: leave it out, or give the same."),
	key("The app has %s templates; at most %s are allowed."),
	key("The app has %s segments; at most %s are allowed."),
	key("Title, body, category and data together have %s bytes; at most %s are allowed."),
	key("%s is not a time zone like Europe/Oslo."),
	key("%s is not a time of day like 22:00."),
	key("%s is not a date and a time of the day like 2026-12-01T09:00, without a zone."),
	key("%s is not a language tag like fr or fr-CA."),
	key("%s is not a language like fr or nb-NO."),
	key("%s is not the URL of a web page or picture: write it with https://."),
	key("%s is not the name of a variable: it has A-Z a-z 0-9 _ . - and at most 128 of them."),
	key("%s is not the id of an endpoint: write its ULID or UUID."),
	key("%s is no name: write a letter or _, then letters, digits, _ . -, at most %s."),
	key("%s is no tag: it is empty or has space around it."),
	key("%s is no tag: it contains a control character or one of , ; |."),
	key("Is longer than %s bytes."),
	key("Has %s entries; at most %s are allowed."),
	key("Has %s members; at most %s are allowed, give them a tag."),
	key("Must be printable text of at most %s characters."),
	key("%s is not an origin like https://example.org."),
	key("The app has said something of %s categories; at most %s are allowed."),
	key("Must be an object."),
	key("Must be an object of texts, numbers, true and false."),
	key("Must be a text, a number, true or false."),
	key("Is not a known field."),
	key("Must be a chat's number or a public name like @channel."),
	key("Must be a URL like https://host/path, without user or fragment."),
	key("Is required: channel live reaches a recipient's mailbox."),
	key("%s… has %s bytes; at most %s are allowed."),
	key("%s is not a channel."),
	key("There is no comparison %s."),
	key("Say what is compared: an attribute, or a field like tags."),
	key("%s is no name of an attribute."),
	key("A value in quotes has no closing quote, or a mark that means nothing there."),
	key("Is what the template says; leave it out, or the template."),
	key("Is what the first variant says; leave it out, or the first variant's."),
	key("A sticker has no text that could be corrected."),
	key("A message that was sent cannot get a %s."),
	key("Telegram shows no buttons below an album."),
	key("%s is none of %s."),
	key("Cannot be combined with a local time: zones would get the better variant before others have got any."),
	key("Is the time in one zone, and local_time that in each recipient's; give one of them."),
	key("Must be telegram alone: without title and body the sticker is all, and no other channel shows it."),
	key("Must be at most 7 days."),
	key("Must be at most 28 days: push services keep no message longer."),
	key("Ends after expires_at: nothing could be sent to the rest any more."),
	key("Must be a query like utm_source=news&utm_medium=push."),
	key("There is no such endpoint."),
	key("Decides between variants; there are none."),
	key("Is when to decide between variants; there are none."),
	key("Must be two."),
	key("Must be that of the first variant, since one limit holds for the campaign."),
	key("Decides what the rest gets; the variants have the whole audience."),
	key("Is when to decide what the rest gets; the variants have the whole audience."),
	key("Must be from 1 second to 7 days."),
	key("%s is not a limit; write it like 3/m, 10/h or 20/d, with a number from 1 to %s."),
	key("%s is not a limit; write it like 1/8h, 3/d or 5/7d, with a number from 1 to %s and at most 30 days."),
	key("Is live, which preferences do not touch: name only channels beyond it."),
	key("Names %s twice."),
	key("The app has no segment %s: PUT /v1/segments/%s makes one."),
	key("The app has no template %s: PUT /v1/templates/%s makes one."),
	key("Is not a URL."),
	key("Must be an https or http URL, or a path that begins with /."),
	key("Must have its host before any variable."),
	key("Must be a whole URL: in a chat there is no site that a path could be of."),
	key("Has {{ without }}."),
	key("%s is not the name of an attribute; write {{name}} or {{name|what to say without one}}."),
	key("Is required, or content.body: notifications and other channels show no sticker."),
	key("%s and %s are not shown in one album: telegram mixes photos and videos only."),
	key("Is required: a URL or the id of a file."),
	key("Needs a callback: only a button that reports can acknowledge."),
	key("Make more than %s bytes of the content."),
	key("Is missing, and so are body, category and data: an empty notification tells its recipient nothing."),
	key("Contains %s at byte %s; allowed are A-Z a-z 0-9 . _ : @ + -."),
	key("Contains NUL or bytes that are not UTF-8."),
	key("Is required: where events are posted."),
	key("The app has %s hooks, which is the most."),
	key("%s is not a type of event."),
	key("Must be the id of an event, or 0 for all that are kept."),
	key("Must be a duration like %s."),
	key("Must be between 1ms and %s."),
	key("It has %s entries; at most %s are allowed."),
	key("%s is none of these."),
	key("It is no JSON: %s."),
	key("Was stored for another server, and this change of %s would send it to a new one: give it again."),
	key("Has more than %s bytes."),
	key("Must be true or false."),
	key("Is required: the bot's token from @BotFather."),
	key("Is not like 123456:ABC-DEF."),
	key("Is required: the JSON file of a service account, from the Firebase console, Project settings, Service accounts."),
	key("Is required: the .p8 file of a key for APNs, from developer.apple.com."),
	key("Is none of production, sandbox."),
	key("Is not like sms=https://example.org/sms."),
	key("Names %s a second time."),
	key("Is missing."),

	key("Channel %s cannot send: channel is not configured."),
	key("Channel %s cannot send: channel is disabled."),
	key("Channel %s is not configured."),
	key("Channel %s has no target %s."),
}

var knownProblems = sayingsOf(problemsOfFields)

// verbs are the places for arguments in a text of the API.
var verbs = regexp.MustCompile(`%[.0-9]*[a-z]`)

// fieldKey returns the text under which the console knows a problem of the API.
func fieldKey(format string) string { return sentence(verbs.ReplaceAllString(format, "%s")) }

// fieldProblem says what is wrong with a field. A problem that holds the text of another error comes as a whole.
func fieldProblem(l *words.Language, e *notification.FieldError) string {
	format, args := e.Parts()
	key, places := fieldKey(format), verbs.FindAllString(format, -1)
	if !slices.Contains(problemsOfFields, key) || len(places) != len(args) {
		return problemIn(l, e.Problem)
	}
	said := make([]any, len(args))
	for i, arg := range args {
		if said[i] = fmt.Sprintf(places[i], arg); places[i] == "%d" {
			said[i] = arg
		}
	}
	return l.T(key, said...)
}

// remedy is a command that mends a problem. People who read pages have no shell.
var remedy = regexp.MustCompile(`: godwit [a-z]+ [a-z]+ .*$`)

// problemIn says a problem by its English text.
func problemIn(l *words.Language, text string) string {
	text = remedy.ReplaceAllString(text, "")
	if said, known := expressionProblem(l, text); known {
		return said
	}
	said, _ := knownProblems.in(l, sentence(text))
	return said
}

// wholeProblem says what is wrong with a field that the form does not have.
func wholeProblem(l *words.Language, e *notification.FieldError) string {
	if l == words.English {
		return remedy.ReplaceAllString(e.Error(), "") + "."
	}
	return e.Field + ": " + fieldProblem(l, e)
}
