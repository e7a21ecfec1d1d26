package backend

import (
	"fmt"
	"net/http"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// PublishTopic is POST /v1/topics/{topic}: the body, of any form, goes to the current subscribers.
func (a *API) PublishTopic(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	m := &pubsub.Message{
		Topic: c.R.PathValue("topic"), ContentType: c.R.Header.Get("Content-Type"), Traceparent: c.R.Header.Get("Traceparent"),
	}
	if err := m.Check(); err != nil {
		return err
	}
	if !c.Key.Rights().CanPublish(m.Topic) {
		return fmt.Errorf("%w: the key may not publish to topic %s", access.ErrForbidden, m.Topic)
	}
	var err error
	if m.Data, err = call.ReadBody(c.R, nil, topic.MaxData); err != nil {
		return err
	}
	if err := a.allow(c.Key.Key, 1); err != nil {
		return err
	}
	if err := a.Topics.Publish(c.Ctx, c.Key.App, m); err != nil {
		return err
	}
	return c.Send(http.StatusAccepted, nil)
}
