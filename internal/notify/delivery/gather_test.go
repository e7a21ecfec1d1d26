package delivery_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// gatherer takes the copies of some recipients.
type gatherer struct{ takes []string }

func (g gatherer) Gathers(string) bool { return g.takes != nil }

func (g gatherer) Gather(_ context.Context, _ string, batch []*mailbox.Append, _ []*notification.Draft) (taken [][]bool, err error) {
	taken = make([][]bool, len(batch))
	for i, a := range batch {
		a.Results, taken[i] = make([]mailbox.AppendResult, len(a.To)), make([]bool, len(a.To))
		for k, to := range a.To {
			if taken[i][k] = slices.Contains(g.takes, to); taken[i][k] {
				a.Results[k].Status = notification.Gathered
			}
		}
	}
	return taken, nil
}

// storeOf stores each copy, and records its recipient.
type storeOf struct{ got []string }

func (s *storeOf) Append(_ context.Context, batch []*mailbox.Append) error {
	for _, a := range batch {
		a.Results = make([]mailbox.AppendResult, len(a.To))
		for i, to := range a.To {
			s.got, a.Results[i].Status = append(s.got, to), notification.Stored
		}
	}
	return nil
}

func TestWhatGathersIsNotStoredInMailboxes(t *testing.T) {
	for _, c := range []struct{ takes, stored []string }{
		{[]string{}, []string{"ann", "bob", "eve", "ann"}},
		{[]string{"ann"}, []string{"bob", "eve"}},
		{[]string{"bob", "ann"}, []string{"eve"}},
		{[]string{"ann", "bob", "eve"}, nil},
	} {
		st := &storeOf{}
		s := delivery.New(st, time.Now)
		s.GatherBy(gatherer{c.takes})
		drafts := []*notification.Draft{{To: []string{"ann", "no name", "bob", "eve"}, Content: notification.Content{Title: "Hi"}}, {To: []string{"ann"}, Content: notification.Content{Title: "Hi"}}}
		results := s.Publish(t.Context(), "demo", drafts)
		if !slices.Equal(st.got, c.stored) {
			t.Errorf("taken %v: the mailboxes get %v, want %v", c.takes, st.got, c.stored)
		}
		for _, r := range results {
			for _, one := range r.Copies {
				want := notification.Stored
				switch {
				case one.To == "no name":
					if one.Err == nil {
						t.Errorf("taken %v: %+v", c.takes, one)
					}
					continue
				case slices.Contains(c.takes, one.To):
					want = notification.Gathered
				}
				if one.Err != nil || one.Status != want {
					t.Errorf("taken %v: %s is %s, %v; want %s", c.takes, one.To, one.Status, one.Err, want)
				}
			}
		}
	}
}

// An app without digests pays for them with one question, and no allocation.
func TestAppWithoutDigestsAllocatesNothingForThem(t *testing.T) {
	drafts := []*notification.Draft{{To: []string{"ann"}, ID: "n", Content: notification.Content{Title: "Hi"}}}
	count := func(s *delivery.Service) float64 {
		return testing.AllocsPerRun(100, func() {
			if r := s.Publish(t.Context(), "demo", drafts); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		})
	}
	without, with := delivery.New(&taker{make([]mailbox.AppendResult, 1)}, time.Now), delivery.New(&taker{make([]mailbox.AppendResult, 1)}, time.Now)
	with.GatherBy(gatherer{})
	if a, b := count(without), count(with); a != b {
		t.Errorf("%v allocations with a gatherer, %v without", b, a)
	}
}
