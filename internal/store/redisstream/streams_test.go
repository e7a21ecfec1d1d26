package redisstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// xadd is a publisher's entry.
const xadd = ` * id n1 category RIDE title T body B show SHOW entity.id e entity.type t entity.data {} created_at 2026-11-20T23:23:58Z ttl 2126-11-20T23:23:58Z`

func openStreams(t *testing.T, cfg StreamsConfig) *Streams {
	t.Helper()
	cfg.Log = quiet()
	s, err := OpenStreams(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func scanned(t *testing.T, s *Streams) (all []string) {
	t.Helper()
	if err := s.Scan(t.Context(), func(keys []string) error { all = append(all, keys...); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestStreamsAreReadDeletedAndSetAside(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	do(t, r, "XADD Nann{1}"+xadd)
	do(t, r, "XADD Nbob{2}"+xadd)
	do(t, r, "XADD Nbob{2} * id n2 title broken")
	do(t, r, "SET NS:token{1} ann")
	do(t, r, "SET N{1} x")
	do(t, r, "SET Ncarl{1} no-stream")
	s := openStreams(t, StreamsConfig{URLs: []string{r.URL()}, Targets: urlguard.All})
	if got := scanned(t, s); !slices.Equal(got, []string{"Nann{1}", "Nbob{2}", "Ncarl{1}"}) {
		t.Errorf("found %v", got)
	}
	list, err := s.Read(t.Context(), []string{"Nann{1}", "Nbob{2}", "Ncarl{1}", "Nnobody{1}"}, 10)
	if err != nil || len(list) != 4 || len(list[0].Entries) != 1 || len(list[1].Entries) != 2 || len(list[2].Entries) != 0 || len(list[3].Entries) != 0 {
		t.Fatalf("read %+v, %v", list, err)
	}
	d := list[0].Entries[0].Draft
	if d == nil || d.To[0] != "ann" || d.ID != "n1" || d.Content.Title != "T" || d.ExpiresAt.Year() != 2126 ||
		string(d.Content.Data) != `{"show":"SHOW","entity":{"id":"e","type":"t","data":"{}"}}` {
		t.Errorf("draft %+v", d)
	}
	bad := list[1].Entries[1]
	if bad.Draft != nil || bad.Wrong == nil {
		t.Fatalf("a broken entry is %+v", bad)
	}
	if err := s.Quarantine(t.Context(), "Nbob{2}", bad, bad.Wrong); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), map[string][]string{"Nann{1}": {list[0].Entries[0].ID}, "Nbob{2}": {list[1].Entries[0].ID}}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"Nann{1}": "0", "Nbob{2}": "0", "godwit:quarantine{2}": "1"} {
		if got := do(t, r, "XLEN "+key); !strings.Contains(got, want) {
			t.Errorf("%s has %s entries, want %s", key, got, want)
		}
	}
}

func TestStreamsOfChosenClientsAloneAreSeen(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	for _, who := range []string{"ann", "bob", "carl-1"} {
		do(t, r, "XADD N"+who+"{1}"+xadd)
	}
	s := openStreams(t, StreamsConfig{URLs: []string{r.URL()}, Targets: urlguard.All, Clients: []string{"bob", "carl-1-x-y"}})
	if got := scanned(t, s); !slices.Equal(got, []string{"Nbob{1}", "Ncarl-1{1}"}) {
		t.Errorf("found %v", got)
	}
}

func TestStreamsTellWhatIsNew(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, true)
	s := openStreams(t, StreamsConfig{URLs: c.URLs(), Targets: urlguard.All})
	if s.Finding() != ByTracking {
		t.Errorf("finding by %s", s.Finding())
	}
	var mu sync.Mutex
	told, missed := map[string]bool{}, 0
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- s.Watch(ctx, func(keys []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				told[k] = true
			}
		}, func() { mu.Lock(); missed++; mu.Unlock() })
	}()
	eventually.True(t, "hearing that streams may have been missed before the watch", func() bool { mu.Lock(); defer mu.Unlock(); return missed >= 3 })
	l, err := dial(t.Context(), c.URLs())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	keys := []string{"Nann{1}", "Nann{2}", "Nann{3}", "Nann{4}", "Nann{5}", "Nann{6}"}
	for _, key := range keys {
		eventually.True(t, "a hint of "+key, func() bool {
			mu.Lock()
			has := told[key]
			mu.Unlock()
			if has {
				return true
			}
			add := l.main.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("a", "b").Build() // once more if the watch of its server has begun anew
			if err := l.main.Do(t.Context(), add).Error(); err != nil {
				t.Fatal(err)
			}
			return false
		})
	}
	if got := scanned(t, s); !slices.Equal(got, keys) {
		t.Errorf("found %v", got)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestStreamsOfSomebodyElseLeadToNoPrivateAddress(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	_, err := OpenStreams(t.Context(), StreamsConfig{URLs: []string{"redis://:sekret@127.0.0.1:1"}})
	if !errors.Is(err, urlguard.ErrPrivate) || strings.Contains(err.Error(), "sekret") {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
}

func TestAnEntryOfAnotherReaderIsNotSetAside(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := openStreams(t, StreamsConfig{URLs: []string{r.URL()}, Targets: urlguard.All})
	if err := s.Quarantine(t.Context(), "Nann{1}", streams.Entry{ID: "1-0"}, errors.New("x")); err == nil {
		t.Error("taken")
	}
}
