package httpapi

import (
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/campaign"
)

// maxTrackBody holds a token and a word.
const maxTrackBody = 1 << 10

// track is POST /v1/track: a receiver reports what it did with a message. The signed token is all it needs; any page
// may send it, since service workers belong to all kinds of sites. The body may come as text/plain, which spares
// browsers a preflight.
func (a *api) track(c *call) error {
	c.w.Header().Set("Access-Control-Allow-Origin", "*")
	if _, err := c.params(); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxTrackBody)
	if err != nil {
		return err
	}
	var token, event string
	if err := (fields{"token": &token, "event": &event}).decodeOrNull(body); err != nil {
		return err
	}
	what, ok := campaign.ParseReaction(event)
	if !ok {
		return badField("event", "%q is none of shown, clicked, dismissed", clip(event))
	}
	if err := a.Campaigns.React(c.ctx, token, what); err != nil {
		return campaignError(err)
	}
	return c.noContent()
}

// trackPreflight is OPTIONS /v1/track.
func (a *api) trackPreflight(c *call) error {
	h := c.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "POST")
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	return c.noContent()
}

// click is GET /v1/click/{token}: counts a click and sends the browser on to where the token was signed for, and
// nowhere else.
func (a *api) click(c *call) error {
	q, err := c.params("to")
	if err != nil {
		return err
	}
	link := q.Get("to")
	if link == "" {
		return badField("to", "is required")
	}
	if err := a.Campaigns.Follow(c.ctx, c.r.PathValue("token"), link); err != nil {
		if errors.Is(err, campaign.ErrBadToken) {
			return campaignError(err)
		}
		a.Log.WarnContext(c.ctx, "click is not counted", "error", err)
		return err
	}
	c.w.Header().Set("Location", link)
	c.status = http.StatusFound
	c.w.WriteHeader(http.StatusFound)
	return nil
}
