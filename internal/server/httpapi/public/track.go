package public

import (
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// maxTrackBody is enough bytes for a token and a reaction.
const maxTrackBody = 1 << 10

// Track is POST /v1/track: a receiver reports its reaction to a message. The signed token suffices; any page may send it, since service
// workers belong to all kinds of sites. The body may have the type text/plain, which saves browsers a preflight.
func (a *API) Track(c *call.Call) error {
	c.W.Header().Set("Access-Control-Allow-Origin", "*")
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxTrackBody)
	if err != nil {
		return err
	}
	var token, event string
	if err := (call.Fields{"token": &token, "event": &event}).DecodeOrNull(body); err != nil {
		return err
	}
	what, ok := push.ParseReaction(event)
	if !ok {
		return notification.BadField("event", "%q is none of shown, clicked, dismissed", notification.Clip(event))
	}
	if err := a.Campaigns.React(c.Ctx, token, what); err != nil {
		return err
	}
	return c.NoContent()
}

// TrackPreflight is OPTIONS /v1/track.
func (a *API) TrackPreflight(c *call.Call) error {
	h := c.W.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "POST")
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	return c.NoContent()
}

// Click is GET /v1/click/{token}: it counts a person's click and redirects the caller to the signed destination, and
// nowhere else.
func (a *API) Click(c *call.Call) error {
	q, err := c.Params("to")
	if err != nil {
		return err
	}
	link := q.Get("to")
	if link == "" {
		return notification.BadField("to", "is required")
	}
	if err := a.Campaigns.Follow(c.Ctx, c.R.PathValue("token"), link, byPerson(c.R)); err != nil {
		if !errors.Is(err, campaign.ErrBadToken) {
			a.Log.WarnContext(c.Ctx, "click is not counted", "error", err)
		}
		return err
	}
	c.W.Header().Set("Location", asciiURL(link))
	c.W.Header().Set("Cache-Control", "no-store") // so that a prefetched page is requested again when a person opens it
	c.Status = http.StatusFound
	c.W.WriteHeader(http.StatusFound)
	return nil
}
