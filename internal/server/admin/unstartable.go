package admin

import (
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/notification"
)

// checked is the parameter of a campaign's form that shows what keeps the campaign from starting.
const checked = "?check"

// unstartable says which fields keep a campaign from starting, with links to them.
func (a *admin) unstartable(v *visit, id string, err error) error {
	_, bad := errors.AsType[*notification.FieldError](err)
	_, unable := errors.AsType[*campaign.ChannelError](err)
	if !bad && !unable {
		return explain(err)
	}
	c, gone := a.campaign(v)
	if gone != nil {
		return gone
	}
	f := readingOf(v, c)
	status, _ := f.refused(err)
	f.check(a, false)
	m := mistaken(max(status, http.StatusConflict), "It cannot be sent as it is. What it lacks:")
	m.troubles, m.at = f.troubles(), "/ui/campaigns/"+id+"/edit"+checked
	return m
}

// readingOf is the form of a stored campaign, as if it were posted.
func readingOf(v *visit, c *campaign.View) *reading {
	f := newReading(v.lang, newValues(&c.Spec, c.SendAt))
	f.spec, f.sendAt = c.Spec, c.SendAt
	if c.Spec.Unwritten() {
		f.blame("title", unwritten)
	}
	return f
}

// unwritten is what a message lacks that says nothing.
const unwritten = "write a title or a text: an empty message says nothing"
