package redisstream

import (
	"context"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// TestEntriesDuringFirstReadAreReadAfterIt: Redis has answered that a stream is empty, and then reports a change.
func TestEntriesDuringFirstReadAreReadAfterIt(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	w := newWorld(t, url)
	// This store gets hints only from the test.
	s, err := Open(t.Context(), Config{URLs: []string{url}, App: "rides", MaxShards: 128, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	s.RouteTo(w, nil)
	s.Joined(driver)
	st := s.online(driver)
	c := s.begin(st)
	c.bodies = make(map[EntryID]mailbox.Item)
	w.add(driver, "meanwhile")
	s.hint(st.key)
	s.took(c, nil, nil)
	s.goOn(c)
	eventually.True(t, "what came meanwhile being routed", func() bool { return len(w.routes(driver)) == 1 })
}
