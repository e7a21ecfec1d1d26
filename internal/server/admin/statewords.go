package admin

import (
	"net/http"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/server/admin/words"
)

// word is an argument of a text that is a word of English, and no name.
type word string

// problemsOfStates are why a campaign in a state does not take a change.
var problemsOfStates = []string{
	key("A campaign that is %s cannot be revised: it has begun."),
	key("A campaign that is %s cannot start: resume it."),
	key("A campaign that is %s cannot start: make a new one."),
	key("A campaign that is %s cannot be paused."),
	key("A campaign that is %s cannot be resumed."),
	key("A campaign that is %s cannot be cancelled."),
	key("A campaign that is %s cannot be recalled: nothing was sent; cancel it."),
	key("A campaign that is %s cannot send unknown ones again."),
	key("A campaign that is %s cannot be deleted: try again when that is done."),
	key("A campaign that is %s cannot be deleted: cancel it first."),
	key("A campaign that is %s cannot be deleted: it is still being wound up; try again in a moment."),
	key("A campaign that is %s cannot be corrected: it is still being wound up; try again in a moment."),
	key("A campaign that is %s cannot be corrected: another correction is under way; try again when it is done."),
	key("A campaign that is %s cannot be corrected: nothing was sent; change it."),
	key("A campaign that is %s cannot be corrected: cancel it first, or wait for its end."),
	key("A campaign that is %s cannot be corrected: what was taken back cannot be corrected."),
	key("A campaign that is %s cannot be corrected: nothing of it was sent over telegram, and what was sent elsewhere stays as it is."),
}

// stateProblem says why a campaign in a state does not take a change.
func stateProblem(e *campaign.StateError) *mistake {
	text := "A campaign that is %s cannot " + e.Action
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return mistaken(http.StatusConflict, text+".", word(e.State))
}

// worded puts words of English into a language, among the arguments of a text.
func worded(l *words.Language, args []any) []any {
	said := make([]any, len(args))
	for i, arg := range args {
		said[i] = arg
		if w, ok := arg.(word); ok {
			said[i] = l.T(string(w))
		}
	}
	return said
}
