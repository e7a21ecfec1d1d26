package admin

import (
	"fmt"
	"regexp"
	"slices"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/words"
)

// problemsOfFields are the problems of the API that forms show most. They are said in all languages, the others in English.
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
}

// verbs are the places for arguments in a text of the API.
var verbs = regexp.MustCompile(`%[.0-9]*[a-z]`)

// fieldKey returns the text under which the console knows a problem of the API.
func fieldKey(format string) string { return sentence(verbs.ReplaceAllString(format, "%s")) }

// fieldProblem says what is wrong with a field.
func fieldProblem(l *words.Language, e *notification.FieldError) string {
	format, args := e.Parts()
	key, places := fieldKey(format), verbs.FindAllString(format, -1)
	if !slices.Contains(problemsOfFields, key) || len(places) != len(args) {
		return sentence(e.Problem)
	}
	said := make([]any, len(args))
	for i, arg := range args {
		if said[i] = fmt.Sprintf(places[i], arg); places[i] == "%d" {
			said[i] = arg
		}
	}
	return l.T(key, said...)
}
