package mailboxdb_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

func TestAPublishThatIsGivenUpBeforeTheWriterHasItIsNotStored(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), config())
	release := s.Hold()
	gone := errors.New("gone")
	ctx, leave := context.WithCancelCause(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- s.Append(ctx, []*mailbox.Append{publishOf("n1", 10, "anna")}) }()
	for s.Stats().Queued < 1 {
		time.Sleep(time.Millisecond)
	}
	leave(gone)
	if err := <-answer; !errors.Is(err, gone) {
		t.Errorf("the publisher is told %v", err)
	}
	release()

	// The caller of the withdrawn publish got an error, and may publish other content with the same id.
	for _, a := range []*mailbox.Append{publishOf("n2", 10, "anna"), publishOf("n1", 20, "anna")} {
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil || a.Results[0].Duplicate {
			t.Errorf("%s: %v, %+v", a.N.ID, err, a.Results)
		}
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "anna", Limit: 10}})
	if err != nil || len(res[0].Items) != 2 || res[0].Items[0].N.ID != "n2" || res[0].Items[0].Seq != 1 {
		t.Errorf("%+v, %v; want n2 and n1 alone", res, err)
	}
}
