package hook

import (
	"context"
	"crypto/rand"

	"godwit.dev/godwit/internal/event"
)

// TestType is the type of the event that Test posts. It is in no log.
const TestType event.Type = "test"

// Test posts an event of its own to a hook, signed as all are, once, and says what came of it. The hook goes on as it did.
func (s *Service) Test(ctx context.Context, app, name string) error {
	info, err := s.Get(ctx, app, name)
	if err != nil {
		return err
	}
	e := event.Event{App: app, Type: TestType, At: s.now(), To: "nobody"}
	return s.poster.Post(ctx, info.Secrets, info.URL, app+"."+name+".test-"+rand.Text(), encode(&e))
}
