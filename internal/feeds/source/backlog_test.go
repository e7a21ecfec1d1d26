package source_test

import (
	"context"
	"log/slog"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// backlog is a journal whose first page has been read, and whose end is far away.
type backlog struct{ *journal }

func (b backlog) Open(context.Context, source.Target) (source.Feed, error) { return b, nil }
func (backlog) Finding() string                                            { return "journal" }
func (backlog) Close()                                                     {}

func (b backlog) Run(ctx context.Context, to source.Emitter) error {
	if _, err := to.Emit(ctx, b.entries); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestASourceRunsWhileItReadsALongBacklog(t *testing.T) {
	t.Parallel()
	b := backlog{&journal{entries: []source.Entry{{From: "1", Wrong: context.Canceled}}}}
	s, err := source.New(t.Context(), source.Config{Store: &sourcetest.Settings{}, Records: sourcetest.NewRecords(), Kinds: map[string]source.Kind{"journal": b}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	defer func() { stop(); <-ended }()
	values := setting.Values{}
	setting.Put(values, "place", "far")
	if _, _, err := s.Set(t.Context(), "shop", "journal", source.Change{Values: values}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the source is running", func() bool {
		i, err := s.Get("shop", "journal")
		return err == nil && i.State == source.Running && i.Counts.Quarantined == 1
	})
}
