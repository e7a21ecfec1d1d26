package source_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// topics records messages in the list of a sinkhole.
type topics struct{ *sinkhole }

func (t topics) Publish(_ context.Context, app string, m *pubsub.Message) error {
	return t.keep(app + " topic " + m.Topic)
}

// read reads bodies of words: each is a publish to its recipient, a put, a deletion, a message or nonsense.
func read(body []byte) (list []source.Entry, err error) {
	for word := range strings.FieldsSeq(string(body)) {
		key := object.Key{Group: "g", Object: word}
		switch {
		case strings.HasPrefix(word, "put"):
			list = append(list, source.Entry{Put: &source.Put{Key: key}})
		case strings.HasPrefix(word, "delete"):
			list = append(list, source.Entry{Delete: &key})
		case strings.HasPrefix(word, "topic"):
			list = append(list, source.Entry{Message: &pubsub.Message{Topic: word}})
		case strings.HasPrefix(word, "own"):
			list = append(list, source.Entry{Publish: &notification.Draft{To: []string{"ann"}, ID: word}})
		case strings.HasPrefix(word, "bad"):
			return nil, errors.New(word + " is no word")
		default:
			list = append(list, source.Entry{Publish: &notification.Draft{To: []string{word}}})
		}
	}
	return list, nil
}

// script is a kind of source whose feed runs a function.
type script struct {
	journal
	run    func(ctx context.Context, t source.Target, to source.Emitter) error
	failed error
	gone   []string // sources that were removed
}

func (s *script) Open(_ context.Context, t source.Target) (source.Feed, error) {
	return scriptFeed{s, t}, nil
}

func (s *script) Remove(_ context.Context, t source.Target) error {
	s.gone = append(s.gone, t.Name)
	return s.failed
}

type scriptFeed struct {
	s *script
	t source.Target
}

func (scriptFeed) Finding() string { return "script" }
func (scriptFeed) Close()          {}

func (f scriptFeed) Run(ctx context.Context, to source.Emitter) error {
	if err := f.s.run(ctx, f.t, to); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// running starts the service with a source of a kind, and stops it when the test ends. It must be called within a synctest bubble.
func running(t *testing.T, k source.Kind, to *sinkhole, name string) (*source.Service, source.Records) {
	t.Helper()
	records := sourcetest.NewRecords()
	s, err := source.New(t.Context(), source.Config{
		Store: stored{map[setting.Place]source.Source{}}, Records: records, Publisher: to, Objects: to, Topics: topics{to}, Read: read,
		Kinds: map[string]source.Kind{"script": k}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
	values := setting.Values{}
	setting.Put(values, "place", "file:1")
	setting.Put(values, "key", "sekret")
	if _, _, err := s.Set(t.Context(), "shop", name, source.Change{Kind: "script", Values: values}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return s, records
}

func TestBodiesOfEntriesBecomePublishesPutsDeletionsAndMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &sinkhole{}
		var outcomes []source.Outcome
		k := &script{run: func(ctx context.Context, _ source.Target, e source.Emitter) (err error) {
			outcomes, err = e.Emit(ctx, []source.Entry{
				{ID: "e1", Body: []byte("ann")},
				{ID: "e2", Version: 7, Body: []byte("bob put-a own-b delete-c topic-d")},
				{ID: "e3", Version: 7, Last: true, From: "line 3", Body: []byte("ann bad-word")},
				{ID: "e4", From: "line 4", Body: []byte("")},
			})
			return errors.Join(err, e.SetAside(ctx, &source.Entry{From: "line 5", Text: []byte("late")}, errors.New("has no room")))
		}}
		s, records := running(t, k, to, "words")
		want := []string{"shop publish e1", "shop publish e2.0", "shop put g/put-a 7", "shop publish own-b", "shop delete g/delete-c", "shop topic topic-d"}
		if !slices.Equal(to.got, want) {
			t.Errorf("got %q, want %q", to.got, want)
		}
		for i, fate := range []source.Fate{source.Stored, source.Stored, source.Quarantined, ""} {
			if outcomes[i].Fate != fate {
				t.Errorf("entry %d is %v, want %q", i+1, outcomes[i], fate)
			}
		}
		aside, err := records.Quarantine(t.Context(), setting.Place{App: "shop", Name: "words"}, 0, 10)
		if err != nil || len(aside) != 2 || aside[0].From != "line 3" || aside[0].Why != "bad-word is no word" || string(aside[0].Text) != "ann bad-word" || string(aside[1].Text) != "late" {
			t.Errorf("in quarantine are %+v, %v", aside, err)
		}
		if i, err := s.Get("shop", "words"); err != nil || i.Counts != (source.Counts{Stored: 6, Quarantined: 2}) || i.Kind != "script" {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

func TestAFeedGetsBackWhatItNotedAndBeginsAnewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []string
		to := &sinkhole{}
		k := &script{run: func(ctx context.Context, target source.Target, e source.Emitter) error {
			seen := string(target.Position)
			if target.Resync {
				if err := errors.Join(e.Unknown(ctx, "g", 0), e.Resynced(ctx)); err != nil {
					return err
				}
				seen += " resync"
			}
			opened = append(opened, seen)
			e.Lag(source.Lag{Bytes: 5, Time: time.Second})
			e.Detail("with sekret inside")
			if err := e.Note(ctx, []byte(`"at"`)); err != nil {
				return err
			}
			e.Caught(ctx)
			return nil
		}}
		s, _ := running(t, k, to, "words")
		set := func(c source.Change) {
			t.Helper()
			time.Sleep(time.Millisecond)
			if _, _, err := s.Set(t.Context(), "shop", "words", c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		on, off := true, false
		set(source.Change{Enabled: &off})
		if i, _ := s.Get("shop", "words"); i.State != source.Paused || i.Lag != nil {
			t.Errorf("%+v", i)
		}
		set(source.Change{Enabled: &on, Resync: true})
		i, _ := s.Get("shop", "words")
		if i.State != source.Running || i.Lag == nil || i.Lag.Bytes != 5 || strings.Contains(i.Detail, "sekret") || !strings.HasPrefix(i.Detail, "with ") {
			t.Errorf("%+v", i)
		}
		set(source.Change{Enabled: &on})
		if want := []string{"", `"at" resync`, `"at"`}; !slices.Equal(opened, want) {
			t.Errorf("opened with %q, want %q", opened, want)
		}
		if want := []string{"shop delete g/g-1", "shop delete g/g-2"}; !slices.Equal(to.got, want) {
			t.Errorf("got %q, want %q", to.got, want)
		}
		if _, _, err := s.Set(t.Context(), "shop", "words", source.Change{Kind: "other"}); err == nil || !strings.Contains(err.Error(), "kind") {
			t.Errorf("another kind: %v", err)
		}

		k.failed = errors.New("slot of sekret is in use")
		left, err := s.Delete(t.Context(), "shop", "words", setting.Match{})
		if err != nil || !strings.HasPrefix(left, "slot of ") || strings.Contains(left, "sekret") || !slices.Equal(k.gone, []string{"words"}) {
			t.Errorf("deleted: left %q, %v, removed %v", left, err, k.gone)
		}
		time.Sleep(time.Millisecond)
		if _, _, err := s.Set(t.Context(), "shop", "words", source.Change{Kind: "script", Values: i.Values}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if opened[len(opened)-1] != "" {
			t.Errorf("a source that was made anew began with %q", opened[len(opened)-1])
		}
	})
}
