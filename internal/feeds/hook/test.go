package hook

import (
	"context"
	"crypto/rand"

	"godwit.dev/godwit/internal/feeds/event"
)

// TestType is the type of the event that Test posts. No log contains such events.
const TestType event.Type = "test"

// Test posts a signed test event to a hook once, and returns the error of the attempt. It does not change the hook's progress.
func (s *Service) Test(ctx context.Context, app, name string) error {
	info, err := s.Get(ctx, app, name)
	if err != nil {
		return err
	}
	e := event.Event{App: app, Type: TestType, At: s.now(), To: "nobody"}
	return s.poster.Post(ctx, info.Secrets, info.URL, app+"."+name+".test-"+rand.Text(), encode(&e))
}
