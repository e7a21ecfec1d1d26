package digest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of what a digest shows of one item.
const (
	maxLine      = 160      // of its line of text
	maxShownText = 1 << 10  // of its title, and of its body
	maxShownData = 16 << 10 // of its data; larger data is left out
	maxValue     = 1 << 10  // of a value of its data that becomes a variable
)

// message is what a digest keeps of a publish.
type message struct {
	Title       string              `json:"title,omitempty"`
	Body        string              `json:"body,omitempty"`
	Category    string              `json:"category,omitempty"`
	Data        []byte              `json:"data,omitempty"`
	ContentType string              `json:"content_type,omitempty"`
	Push        []byte              `json:"push,omitempty"`
	Variables   map[string]string   `json:"variables,omitempty"`
	Locale      string              `json:"locale,omitempty"`
	Priority    int8                `json:"priority,omitempty"`
	Ack         uint8               `json:"ack,omitempty"`
	Steps       []notification.Step `json:"steps,omitempty"`

	Inbox   *bool                 `json:"inbox,omitempty"`
	Keep    time.Duration         `json:"keep,omitempty"`
	Actions []notification.Action `json:"actions,omitempty"` // of an item that leaves alone
}

func encode(n *notification.Notification, d *notification.Draft) ([]byte, error) {
	c := &n.Content
	b, err := json.Marshal(message{
		Title: c.Title, Body: c.Body, Category: c.Category, Data: c.Data, ContentType: c.ContentType, Push: c.Push, Variables: d.Variables, Locale: d.Locale,
		Priority: int8(n.Priority), Ack: uint8(n.Ack), Steps: n.Steps,
		Inbox: d.Inbox, Keep: d.Keep, Actions: d.Actions,
	})
	if err != nil {
		return nil, fmt.Errorf("store notification %s until its digest: %w", n.ID, err)
	}
	return b, nil
}

// digestJSON is the member "digest" of a digest's data.
type digestJSON struct {
	Key   string      `json:"key"`
	Count int         `json:"count"`
	Since string      `json:"since"` // when the first item was published
	Items []shownJSON `json:"items"`
}

// shownJSON is one of the newest items.
type shownJSON struct {
	ID          string          `json:"id"`
	Title       string          `json:"title,omitempty"`
	Body        string          `json:"body,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  []byte          `json:"data_base64,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
	CreatedAt   string          `json:"created_at"`
}

const moment = "2006-01-02T15:04:05.000Z07:00"

// compose makes the notification that a digest becomes. An item that is alone leaves as it was published.
func (s *Service) compose(ctx context.Context, l *Leaving) (*notification.Draft, error) {
	all := make([]message, len(l.Newest))
	for i := range l.Newest {
		if err := json.Unmarshal(l.Newest[i].Body, &all[i]); err != nil {
			return nil, fmt.Errorf("item %s of digest %s is damaged: %w", l.Newest[i].ID, l.ID, err)
		}
	}
	newest := &all[0]
	d := &notification.Draft{
		ID: l.ID, To: []string{l.To}, Alone: true, ExpiresAt: l.Expires,
		Priority: notification.Priority(newest.Priority), Ack: notification.AckMode(newest.Ack), Escalate: newest.Steps,
		Inbox: newest.Inbox, Keep: newest.Keep,
	}
	if l.Items == 1 {
		d.Actions = newest.Actions
		d.Content = notification.Content{Title: newest.Title, Body: newest.Body, Category: newest.Category, Data: newest.Data, ContentType: newest.ContentType, Push: newest.Push}
	} else if err := s.write(ctx, d, l, all); err != nil {
		return nil, err
	}
	d.Content.Key = "digest:" + l.ID // however often it is composed, it is the same notification
	return d, nil
}

// write sets the content of a digest of several items.
func (s *Service) write(ctx context.Context, d *notification.Draft, l *Leaving, all []message) (err error) {
	d.Content.ContentType = "application/json"
	if d.Content.Data, err = json.Marshal(map[string]digestJSON{"digest": dataOf(l, all)}); err != nil {
		return fmt.Errorf("write digest %s: %w", l.ID, err)
	}
	d.Locale = all[0].Locale
	if name := s.rules(l.App, all[0].Category).Template; name != "" {
		filled := *d
		filled.Template, filled.Variables = name, variablesOf(l, all)
		err := s.cfg.Fill(ctx, l.App, &filled)
		switch {
		case err == nil:
			filled.Template, filled.Variables, filled.Locale = "", nil, ""
			filled.Content.Category = all[0].Category
			*d = filled
			return nil
		case !isField(err):
			return fmt.Errorf("write digest %s: %w", l.ID, err)
		}
		s.metrics.untold.Inc()
		s.cfg.Log.WarnContext(ctx, "a digest cannot use its template, and gets a plain text", "app", l.App, "digest", l.ID, "category", all[0].Category, "template", name, "error", err)
	}
	c := plain()
	err = c.FillDraft(d, template.Variables{"count": strconv.Itoa(l.Items), "items": lines(all)})
	d.Content.Category, d.Locale = all[0].Category, ""
	return err
}

// plain is the content of a digest whose category names no template. The languages are those of the console.
func plain() *template.Content {
	c := &template.Content{Language: "en", Content: push.Content{Title: "{{count}} new notifications", Body: "{{items}}"}}
	c.Locales = make(map[string]template.Variant)
	for tag, title := range map[string]string{
		"de": "{{count}} neue Benachrichtigungen", "es": "{{count}} notificaciones nuevas", "fr": "{{count}} nouvelles notifications",
		"hi": "{{count}} नई सूचनाएँ", "pt": "{{count}} novas notificações",
	} {
		c.Locales[tag] = template.Variant{Title: title}
	}
	return c
}

func dataOf(l *Leaving, all []message) digestJSON {
	v := digestJSON{Key: l.Key, Count: l.Items, Since: l.Opened.UTC().Format(moment), Items: make([]shownJSON, len(all))}
	for i := range all {
		m, shown := &all[i], &v.Items[i]
		shown.ID, shown.CreatedAt = l.Newest[i].ID, l.Newest[i].Created.UTC().Format(moment)
		shown.Title, shown.Body = clip(m.Title, maxShownText), clip(m.Body, maxShownText)
		switch {
		case len(m.Data) == 0 || len(m.Data) > maxShownData:
		case notification.IsJSON(m.ContentType):
			shown.Data = m.Data
		default:
			shown.DataBase64, shown.ContentType = m.Data, m.ContentType
		}
	}
	return v
}

// lines lists the newest items, one a line.
func lines(all []message) string {
	list := make([]string, 0, len(all))
	for i := range all {
		if text := line(all[i].Title, all[i].Body); text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "\n")
}

// variablesOf are the variables of a digest's template: those of the digest, and of the newest item its variables and the fields of its data.
func variablesOf(l *Leaving, all []message) map[string]string {
	v := map[string]string{"count": strconv.Itoa(l.Items), "others": strconv.Itoa(l.Items - 1), "items": lines(all), "key": l.Key}
	room := template.MaxVariables - len(v)
	add := func(name, value string) {
		one := template.Variables{name: value}
		if _, taken := v[name]; !taken && room > 0 && one.Check("") == nil {
			v[name] = clip(value, maxValue)
			room--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all[0].Variables)) {
		add(name, all[0].Variables[name])
	}
	var fields map[string]json.RawMessage
	if notification.IsJSON(all[0].ContentType) && json.Unmarshal(all[0].Data, &fields) == nil {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if value := fields[name]; value[0] != '{' && value[0] != '[' {
				if text, ok := textOf(value); ok && utf8.ValidString(text) {
					add(name, text)
				}
			}
		}
	}
	return fit(v)
}

// mostBytes is what the variables of a template may have together, less those that every digest has.
const mostBytes = 12 << 10

// fit leaves out variables beyond the bytes that a template's may have.
func fit(v map[string]string) map[string]string {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch name {
		case "count", "others", "items", "key":
			continue
		}
		if size += len(name) + len(v[name]); size > mostBytes {
			delete(v, name)
		}
	}
	return v
}
