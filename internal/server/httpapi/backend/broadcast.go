package backend

import (
	"context"
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/activity"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Broadcasts keeps the broadcast channels of objects.
type Broadcasts interface {
	Broadcast(ctx context.Context, app string, k object.Key) (activity.Broadcast, error)
	MakeBroadcast(ctx context.Context, app string, k object.Key, id string, keep bool) (made activity.Broadcast, created bool, err error)
	DeleteBroadcast(ctx context.Context, app string, k object.Key) error
}

const maxBroadcastBody = 4 << 10

type broadcastJSON struct {
	Group     string `json:"group"`
	Object    string `json:"object"`
	ChannelID string `json:"channel_id"`
	Keep      bool   `json:"keep"`
}

func showBroadcast(c *call.Call, status int, b *activity.Broadcast) error {
	return c.Value(status, broadcastJSON{b.Key.Group, b.Key.Object, b.ChannelID, b.Keep})
}

// PutBroadcast is PUT /v1/objects/{group}/{object}/broadcast.
func (a *API) PutBroadcast(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxBroadcastBody)
	if err != nil {
		return err
	}
	var id string
	keep := true
	if len(body) > 0 {
		if err := (call.Fields{"keep": &keep, "channel_id": &id}).Decode(body); err != nil {
			return err
		}
	}
	if id != "" {
		if err := push.CheckBroadcastID("channel_id", id); err != nil {
			return err
		}
	}
	made, created, err := a.Broadcasts.MakeBroadcast(c.Ctx, c.Key.App, k, id, keep)
	if err != nil {
		return broadcastProblem(err)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return showBroadcast(c, status, &made)
}

// GetBroadcast is GET /v1/objects/{group}/{object}/broadcast.
func (a *API) GetBroadcast(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	b, err := a.Broadcasts.Broadcast(c.Ctx, c.Key.App, k)
	if err != nil {
		return broadcastProblem(err)
	}
	return showBroadcast(c, http.StatusOK, &b)
}

// DeleteBroadcast is DELETE /v1/objects/{group}/{object}/broadcast.
func (a *API) DeleteBroadcast(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	if err := a.Broadcasts.DeleteBroadcast(c.Ctx, c.Key.App, k); err != nil {
		return broadcastProblem(err)
	}
	return c.NoContent()
}

// broadcastProblem shows what the provider said, which an app's back end may read.
func broadcastProblem(err error) error {
	var gone *push.GoneError
	switch {
	case errors.Is(err, activity.ErrNoBroadcast):
		return problem.NotFound.With("the object has no broadcast channel; PUT makes one")
	case errors.As(err, &gone):
		return problem.NotFound.With(gone.Reason)
	case push.Outcome(err) != "failed":
		return problem.ChannelUnable.With(err.Error())
	}
	var permanent *push.PermanentError
	var objection *push.ObjectionError
	switch {
	case errors.As(err, &permanent):
		return problem.ChannelUnable.With(permanent.Reason)
	case errors.As(err, &objection):
		return problem.ChannelUnable.With(objection.Reason)
	}
	return err
}
