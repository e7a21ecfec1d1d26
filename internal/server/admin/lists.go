package admin

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// mostLines limits the lines of a list in the form: buttons, languages.
const mostLines = 100

// lists holds the fields of each list's lines. A field is named like button-0-text. A language has lists of buttons of its own:
// locale-0-button-0-text.
var lists = map[string][]string{
	"button": {"text", "url", "callback", "ack", "beside"},
	"action": {"title", "url", "icon", "action"},
	"step":   {"channel", "after"},
	"locale": {"tag", "title", "body", "icon", "image", "url", "data"},
}

func lineField(list string, n int, name string) string {
	return list + "-" + strconv.Itoa(n) + "-" + name
}

// ofLanguage splits the name of a language's own list, or of a field in it, into the language's number and the rest: locale-0-button into 0
// and button.
func ofLanguage(name string) (n int, rest string, ok bool) {
	name, in := strings.CutPrefix(name, "locale-")
	number, rest, _ := strings.Cut(name, "-")
	own, _, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(number)
	return n, rest, in && err == nil && n < mostLines && (own == "button" || own == "action")
}

// fieldsOf returns the fields of a list's lines; nil if no list has that name.
func fieldsOf(list string) []string {
	if _, own, ok := ofLanguage(list); ok {
		list = own
	}
	return lists[list]
}

// listed splits the name of a field in a list.
func listed(name string) (list string, n int, field string, ok bool) {
	language, own, in := ofLanguage(name)
	if in {
		name = own
	}
	list, rest, _ := strings.Cut(name, "-")
	number, field, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(number)
	ok = err == nil && n < mostLines && slices.Contains(lists[list], field)
	if in {
		list = lineField("locale", language, list)
	}
	return list, n, field, ok
}

// contentLists are a message's lines.
func contentLists(v url.Values, c *campaign.Content) {
	buttonValues(v, "button", c.Telegram.Buttons)
	actionValues(v, "action", c.WebPush.Actions)
	for i, tag := range slices.Sorted(maps.Keys(c.Locales)) {
		l := c.Locales[tag]
		for name, value := range map[string]string{
			"tag": tag, "title": l.Title, "body": l.Body, "icon": l.Icon, "image": l.Image, "url": l.URL, "data": string(l.Data),
		} {
			v.Set(lineField("locale", i, name), value)
		}
		if l.Telegram != nil {
			buttonValues(v, lineField("locale", i, "button"), l.Telegram.Buttons)
		}
		if l.WebPush != nil {
			actionValues(v, lineField("locale", i, "action"), l.WebPush.Actions)
		}
	}
}

func buttonValues(v url.Values, list string, rows [][]push.TelegramLink) {
	n := 0
	for _, row := range rows {
		for i, b := range row {
			v.Set(lineField(list, n, "text"), b.Text)
			v.Set(lineField(list, n, "url"), b.URL)
			v.Set(lineField(list, n, "callback"), b.Callback)
			tick(v, lineField(list, n, "ack"), b.Ack)
			tick(v, lineField(list, n, "beside"), i > 0)
			n++
		}
	}
}

func actionValues(v url.Values, list string, actions []push.Action) {
	for i, b := range actions {
		for name, value := range map[string]string{"title": b.Title, "url": b.URL, "icon": b.Icon, "action": b.Action} {
			v.Set(lineField(list, i, name), value)
		}
	}
}

// filled counts the lines of a list up to the first empty one.
func (f *form) filled(list string) int {
	n := 0
	for n < mostLines && f.stands(list, n) {
		n++
	}
	return n
}

func (f *form) stands(list string, n int) bool {
	if slices.ContainsFunc(fieldsOf(list), func(name string) bool { return f.Values.Get(lineField(list, n, name)) != "" }) {
		return true
	}
	return list == "locale" && (f.filled(lineField(list, n, "button")) > 0 || f.filled(lineField(list, n, "action")) > 0)
}

// compact renumbers the lines of lists, so that an emptied line leaves no gap. It returns a function that maps a field's old name to its
// new one.
func compact(v url.Values) (moved func(name string) string) {
	taken := make(map[string][]int) // the numbers of each list's lines that are not empty
	for name, values := range v {
		list, n, field, ok := listed(name)
		if !ok || field == "beside" || field == "ack" || len(values) == 0 || strings.TrimSpace(values[0]) == "" {
			continue
		}
		taken[list] = append(taken[list], n)
		if language, _, own := ofLanguage(list); own {
			taken["locale"] = append(taken["locale"], language)
		}
	}
	for list, lines := range taken {
		slices.Sort(lines)
		taken[list] = slices.Compact(lines)
	}
	moved = func(name string) string {
		list, n, field, ok := listed(name)
		if !ok {
			return name
		}
		to, _ := slices.BinarySearch(taken[list], n)
		if language, own, in := ofLanguage(list); in {
			at, _ := slices.BinarySearch(taken["locale"], language)
			list = lineField("locale", at, own)
		}
		return lineField(list, to, field)
	}
	together := make(url.Values)
	for name, values := range v {
		if list, n, _, ok := listed(name); ok {
			if slices.Contains(taken[list], n) && len(values) > 0 && values[0] != "" {
				together[moved(name)] = values
			}
			delete(v, name)
		}
	}
	maps.Copy(v, together)
	return moved
}

// addLine moves the focus to an empty line of a list, and reports whether the person asked for one.
func (f *form) addLine(moved func(string) string) bool {
	list, ok := strings.CutPrefix(text(f.Values, "then"), "more-")
	fields := fieldsOf(list)
	if !ok || fields == nil {
		return false
	}
	if list, _, _, ok = listed(moved(lineField(list, 0, fields[0]))); ok {
		f.Focus = lineField(list, min(f.filled(list), mostLines-1), fields[0])
	}
	return ok
}

// group is a line of a list in the form.
type group struct {
	Form   *form
	Prefix string
	Number int // from 1
}

// newGroups returns the lines of a list, and an empty one if there is no line yet, or if the person asked for another.
func newGroups(f *form, list string) (all []group) {
	n := max(f.filled(list), lineOf(list, f.Focus)+1, 1)
	for i := range min(n, mostLines) {
		all = append(all, group{Form: f, Prefix: lineField(list, i, ""), Number: i + 1})
	}
	return all
}

// lineOf returns the number of the list's line that contains a field, also if the field is in a list within that line; -1: no line does.
func lineOf(list, name string) int {
	rest, ok := strings.CutPrefix(name, list+"-")
	number, _, _ := strings.Cut(rest, "-")
	if n, err := strconv.Atoi(number); ok && err == nil {
		return n
	}
	return -1
}

// groups holds the name of each list's lines.
var groups = map[string]string{"button": "Telegram's button %s", "action": "Browser's button %s", "locale": "Language %s", "step": "Step %s"}

// lineLabel returns the label of a list's line.
func lineLabel(l *words.Language, list string, n int) string {
	if language, own, ok := ofLanguage(list); ok {
		return lineLabel(l, "locale", language) + ", " + lineLabel(l, own, n)
	}
	return l.T(groups[list], n+1)
}
