package source_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is a kind of source with fields of its own: a list of entries, whose reader confirms how many it has taken.
type journal struct {
	mu        sync.Mutex
	entries   []source.Entry
	outcomes  []source.Fate
	confirmed int
	opened    []source.Target
}

func (j *journal) Fields() []setting.Field {
	return []setting.Field{{Name: "place", Address: true}, {Name: "slot"}, {Name: "key", Secret: true}}
}

func (j *journal) About() string { return "a list" }

func (j *journal) Check(v setting.Values) error {
	if v.Text("place") == "" {
		return notification.BadField("place", "is required")
	}
	return nil
}

func (j *journal) Open(_ context.Context, t source.Target) (source.Feed, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.opened = append(j.opened, t)
	return tail{j}, nil
}

type tail struct{ *journal }

func (tail) Finding() string { return "journal" }
func (tail) Close()          {}

func (t tail) Run(ctx context.Context, to source.Emitter) error {
	t.mu.Lock()
	entries := t.entries[t.confirmed:]
	t.mu.Unlock()
	outcomes, err := to.Emit(ctx, entries)
	if err != nil {
		return err
	}
	t.mu.Lock()
	for _, o := range outcomes {
		t.outcomes = append(t.outcomes, o.Fate)
	}
	t.confirmed += len(outcomes)
	t.mu.Unlock()
	to.Caught(ctx)
	<-ctx.Done()
	return context.Cause(ctx)
}

// sinkhole records publishes and puts, in order.
type sinkhole struct {
	mu   sync.Mutex
	got  []string
	down error
}

func (s *sinkhole) keep(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		s.got = append(s.got, what)
	}
	return s.down
}

func (s *sinkhole) Publish(_ context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		results[i] = delivery.Result{ID: d.ID, Err: s.keep(app + " publish " + d.ID), Copies: []delivery.Copy{{To: d.To[0]}}}
	}
	return results
}

func (s *sinkhole) Put(_ context.Context, app string, k object.Key, p *object.Put) (object.State, bool, error) {
	if p.Version < 0 {
		return object.State{}, false, notification.BadField("version", "is none")
	}
	what := fmt.Sprintf("%s put %s %d", app, k, p.Version)
	if p.Unknown {
		what = fmt.Sprintf("%s delete %s", app, k)
	}
	return object.State{}, p.Version != 1, s.keep(what)
}

func (s *sinkhole) Names(_ context.Context, _, group, after string, _ int) ([]string, string, error) {
	if after == "" {
		return []string{group + "-1"}, "more", nil
	}
	return []string{group + "-2"}, "", nil
}

// stored are settings in memory.
type stored struct {
	all map[setting.Place]source.Source
}

func (s stored) All(context.Context) (list []source.Source, err error) {
	for _, one := range s.all {
		list = append(list, one)
	}
	return list, nil
}

func (s stored) Update(_ context.Context, app, name string, change func(*source.Source, int) error) error {
	one, ok := s.all[setting.Place{App: app, Name: name}]
	if !ok {
		one = source.Source{App: app, Name: name}
	}
	err := change(&one, 0)
	s.all[setting.Place{App: app, Name: name}] = one
	return err
}

func (s stored) Delete(_ context.Context, app, name string, _ func(*source.Source) error) (bool, error) {
	at := setting.Place{App: app, Name: name}
	_, ok := s.all[at]
	delete(s.all, at)
	return ok, nil
}

func (s stored) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func TestAKindEmitsPublishesPutsAndDeletionsBehindItsCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		publish := func(id string) source.Entry {
			return source.Entry{Publish: &notification.Draft{To: []string{"ann"}, ID: id}}
		}
		gate := object.Key{Group: "gates", Object: "7"}
		put := func(v object.Version) source.Entry {
			return source.Entry{Put: &source.Put{Key: gate, Put: object.Put{Version: v}}}
		}
		j := &journal{entries: []source.Entry{
			publish("old"), publish("a"), publish("b"), put(8), publish("c"), put(1), {Delete: &gate}, put(-1), {Wrong: errors.New("is torn")},
		}, confirmed: 1}
		to, log, kept := &sinkhole{down: errors.New("the disk is away")}, &logbuffer.Buffer{}, stored{map[setting.Place]source.Source{}}
		s, err := source.New(t.Context(), source.Config{
			Store: kept, Records: sourcetest.NewRecords(), Publisher: to, Objects: to, Kinds: map[string]source.Kind{"journal": j}, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Run(ctx) }()
		synctest.Wait()
		values := setting.Values{}
		setting.Put(values, "place", "file:1")
		setting.Put(values, "slot", "x")
		setting.Put(values, "key", "sekret")
		if _, _, err := s.Set(t.Context(), "shop", "journal", source.Change{Values: values}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if i, _ := s.Get("shop", "journal"); i.State != source.Failing || j.confirmed != 1 {
			t.Errorf("while nothing can be stored the source is %s, and %d entries are confirmed", i.State, j.confirmed)
		}
		if lines := strings.Count(log.String(), "msg=reading"); lines != 0 {
			t.Errorf("the log has said %d times that a source is read which is not", lines)
		}
		to.mu.Lock()
		to.down = nil
		to.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if lines := strings.Count(log.String(), "msg=reading"); lines != 1 {
			t.Errorf("the log says %d times that the source is read", lines)
		}
		want := []string{"shop publish a", "shop publish b", "shop put gates/7 8", "shop publish c", "shop put gates/7 1", "shop delete gates/7"}
		if !slices.Equal(to.got, want) {
			t.Errorf("got %q, want %q", to.got, want)
		}
		fates := []source.Fate{source.Stored, source.Stored, source.Stored, source.Stored, source.Duplicate, source.Stored, source.Quarantined, source.Quarantined}
		if !slices.Equal(j.outcomes, fates) || j.confirmed != len(j.entries) {
			t.Errorf("outcomes %v, want %v; %d of %d entries are confirmed", j.outcomes, fates, j.confirmed, len(j.entries))
		}
		i, err := s.Get("shop", "journal")
		if err != nil || i.State != source.Running || i.Finding != "journal" || i.Counts != (source.Counts{Stored: 5, Duplicate: 1, Quarantined: 2}) {
			t.Errorf("%+v, %v", i, err)
		}
		if strings.Contains(fmt.Sprintf("%+v %s", i, log), "sekret") || j.opened[0].Values.Text("key") != "sekret" {
			t.Error("the secret is shown, or did not come to where the kind connects")
		}
		stop()
		<-ended
	})
}

func TestAKindsValuesReplaceTheFormerOnesButSecrets(t *testing.T) {
	kept := stored{map[setting.Place]source.Source{}}
	s, err := source.New(t.Context(), source.Config{Store: kept, Records: sourcetest.NewRecords(), Kinds: map[string]source.Kind{"journal": &journal{}}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	set := func(private bool, values ...string) (source.Info, error) {
		v := setting.Values{}
		for i := 0; i < len(values); i += 2 {
			setting.Put(v, values[i], values[i+1])
		}
		info, _, err := s.Set(t.Context(), "shop", "journal", source.Change{Values: v, Private: private})
		return info, err
	}
	if _, err := set(false, "slot", "x"); err == nil || !strings.Contains(err.Error(), "place") {
		t.Errorf("without a place: %v", err)
	}
	if _, err := set(true, "place", "a", "slot", "x", "key", "k"); err != nil {
		t.Fatal(err)
	}
	i, err := set(false, "place", "a")
	if err != nil || i.Values.Text("slot") != "" || i.Values.Text("key") != "k" || !i.Private || !slices.Equal(i.Credentials, []string{"key"}) {
		t.Errorf("slot %q, key %q, private %t, credentials %v, %v", i.Values.Text("slot"), i.Values.Text("key"), i.Private, i.Credentials, err)
	}
	if _, err := set(false, "place", "b"); err == nil || !strings.Contains(err.Error(), "key: was stored for a, and this change would send it to b: give it again") {
		t.Errorf("a place that was not given the stored secret: %v", err)
	}
	if i, err := set(true, "place", "b", "key", "k"); err != nil || !slices.Equal(i.Addresses, []string{"b"}) {
		t.Errorf("leads to %v, %v", i.Addresses, err)
	}
	if i, err := set(false, "place", "c", "key", ""); err != nil || i.Private || len(i.Credentials) != 0 || !slices.Equal(i.Addresses, []string{"c"}) {
		t.Errorf("leads to %v, private %t, credentials %v, %v", i.Addresses, i.Private, i.Credentials, err)
	}
	if _, _, err := s.Set(t.Context(), "shop", "other", source.Change{}); !errors.Is(err, source.ErrUnknown) || !strings.Contains(err.Error(), "there is journal") {
		t.Errorf("another kind: %v", err)
	}
	if _, err := s.Preview(t.Context(), "shop", "journal", source.Change{}); err == nil || !strings.HasPrefix(err.Error(), "kind: a source of the kind journal has no mapping") {
		t.Errorf("a preview of a kind without tables: %v", err)
	}
}
