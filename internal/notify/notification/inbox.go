package notification

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what an inbox keeps. They are part of the public contract.
const (
	DefaultKeep       = 30 * 24 * time.Hour
	MinKeep           = time.Minute
	MaxKeep           = 365 * 24 * time.Hour
	MaxActions        = 5
	MaxActionTitle    = 100  // bytes
	MaxActionURL      = 2048 // bytes
	MaxInboxCategory  = MaxNameBytes
	inboxNeedsSetting = "is for a notification that the inbox keeps: set inbox, in the publish or in its category"
)

// inboxCalls are ids that stand for calls in the API's paths.
var inboxCalls = []string{"seen", "read", "archived", "counts"}

// Inbox says how recipients' inboxes keep a notification after its delivery.
type Inbox struct {
	Keep    time.Duration // from the publish on, or from when it becomes due; whole minutes
	Actions []Action
}

// Action is a choice that a kept notification offers.
type Action struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"` // page that the choice opens; empty: the choice is a reply
}

// ReplyOf is the reply that chooses an action.
func ReplyOf(action string) *Reply {
	data, _ := json.Marshal(chosen{action}) // a text
	return &Reply{Status: http.StatusOK, ContentType: "application/json", Data: data}
}

type chosen struct {
	Action string `json:"action"`
}

// Action returns the id of the action that a reply chooses; empty: it chooses none.
func (r *Reply) Action() string {
	var c chosen
	if len(r.Data) > 2*MaxNameBytes || !bytes.HasPrefix(r.Data, []byte{'{'}) || json.Unmarshal(r.Data, &c) != nil || CheckName("action", c.Action) != nil {
		return ""
	}
	return c.Action
}

// CheckKeep applies the rule for the time that an inbox keeps something.
func CheckKeep(field string, keep time.Duration) error {
	if keep < MinKeep || keep > MaxKeep {
		return BadField(field, "must be from %s to %s", "1m", days(MaxKeep))
	}
	return nil
}

// setInbox applies the rules for what the inbox keeps.
func (d *Draft) setInbox(n *Notification) error {
	if d.Inbox == nil || !*d.Inbox {
		switch {
		case d.Keep != 0:
			return LapsedField("keep", inboxNeedsSetting)
		case len(d.Actions) > 0:
			return LapsedField("actions", inboxNeedsSetting)
		}
		return nil
	}
	if slices.Contains(inboxCalls, d.ID) {
		return BadField("id", "is %s, which is a call of the inbox: choose another id for a notification that it keeps", d.ID)
	}
	keep := d.Keep
	if keep == 0 {
		keep = DefaultKeep
	}
	if err := CheckKeep("keep", keep); err != nil {
		return err
	}
	if len(n.Content.Category) > MaxInboxCategory {
		return BadField("category", "has %d bytes; of a notification that the inbox keeps, at most %d are allowed", len(n.Content.Category), MaxInboxCategory)
	}
	if err := checkActions(d.Actions); err != nil {
		return err
	}
	n.Content.Inbox = &Inbox{Keep: keep.Round(time.Minute), Actions: d.Actions}
	return nil
}

func checkActions(list []Action) error {
	if len(list) > MaxActions {
		return BadField("actions", "has %d actions; at most %d are allowed", len(list), MaxActions)
	}
	for i, a := range list {
		if err := CheckName("actions.id", a.ID); err != nil {
			return err
		}
		for _, other := range list[:i] {
			if other.ID == a.ID {
				return BadField("actions.id", "%s is given twice", a.ID)
			}
		}
		switch {
		case a.Title == "":
			return BadField("actions.title", "is required")
		case len(a.Title) > MaxActionTitle || !utf8.ValidString(a.Title):
			return BadField("actions.title", "must be UTF-8 of at most %d bytes", MaxActionTitle)
		case a.URL != "":
			if err := checkActionURL(a.URL); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkActionURL refuses addresses that would run a script in the page that shows the inbox. Those of other schemes open apps.
func checkActionURL(s string) error {
	if len(s) > MaxActionURL {
		return BadField("actions.url", "has %d bytes; at most %d are allowed", len(s), MaxActionURL)
	}
	u, err := url.Parse(s)
	if err != nil || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return BadField("actions.url", "is not a URL")
	}
	switch strings.ToLower(u.Scheme) {
	case "javascript", "data", "vbscript", "blob", "file":
		return BadField("actions.url", "may not have the scheme %s", u.Scheme)
	}
	return nil
}
