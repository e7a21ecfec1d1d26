package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestEntriesAreStoredAndThenDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		hour := time.Now().Add(time.Hour)
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "old", hour))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		w.redis.add("Nann{1}", true, entry("2-0", "ann", "new", hour), entry("3-0", "ann", "newer", hour))
		w.redis.add("Nbob{1}", true, entry("1-0", "bob", "new", hour))
		synctest.Wait()
		want := []string{"shop/ann/old", "shop/ann/new", "shop/ann/newer", "shop/bob/new"}
		if got := w.boxes.stored(); !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		if n := len(w.redis.left("Nann{1}")) + len(w.redis.left("Nbob{1}")); n != 0 {
			t.Errorf("%d entries are left in Redis", n)
		}
		if i := w.info(t, "shop"); i.State != source.Running || i.Finding != "tracking" || i.Counts != (source.Counts{Stored: 4}) {
			t.Errorf("%+v", i)
		}
	})
}

func TestScanFindsUnannouncedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", time.Now().Add(time.Hour)))
		synctest.Wait()
		if got := w.boxes.stored(); len(got) != 0 {
			t.Fatalf("stored %v without having heard of it", got)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := w.boxes.stored(); len(got) != 1 {
			t.Errorf("stored %v", got)
		}
		w.redis.add("Nbob{1}", false, entry("1-0", "bob", "n", time.Now().Add(time.Hour)))
		w.redis.missed()
		synctest.Wait()
		if got := w.boxes.stored(); len(got) != 2 {
			t.Errorf("stored %v after hints were missed", got)
		}
	})
}

func TestEachEntryIsDecidedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		w.boxes.answers["twice"] = func(c *delivery.Copy) { c.Err = mailbox.ErrConflict }
		w.boxes.answers["wide"] = func(c *delivery.Copy) { c.Err = notification.BadField("to", "is no name") }
		w.boxes.answers["full"] = func(c *delivery.Copy) { c.Err = mailbox.ErrFull }
		w.boxes.answers["known"] = func(c *delivery.Copy) { c.Duplicate = true }
		hour := time.Now().Add(time.Hour)
		key := "Nann{1}"
		w.redis.add(key, false,
			streams.Entry{ID: "1-0", Wrong: errors.New("ttl is no time")}, entry("2-0", "ann", "twice", hour), entry("3-0", "ann", "wide", hour),
			entry("4-0", "ann", "full", hour), entry("5-0", "ann", "known", hour), entry("6-0", "ann", "late", time.Now()), entry("7-0", "ann", "", hour), entry("8-0", "ann", "good", hour))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		if got := w.boxes.stored(); !slices.Equal(got, []string{"shop/ann/good"}) {
			t.Errorf("stored %v", got)
		}
		if left := w.redis.left(key); !slices.Equal(left, []string{"4-0"}) {
			t.Errorf("left in Redis: %v, want what finds its mailbox full", left)
		}
		if aside := w.redis.asideIDs; !slices.Equal(aside, []string{"1-0", "2-0", "3-0", "7-0"}) {
			t.Errorf("in quarantine: %v", aside)
		}
		if i := w.info(t, "shop"); i.Counts != (source.Counts{Stored: 1, Duplicate: 1, Expired: 1, Quarantined: 4, Full: 1}) {
			t.Errorf("%+v", i.Counts)
		}
		if n := strings.Count(w.log.String(), "put into quarantine"); n != 1 {
			t.Errorf("said %d times that something is no notification, want once for the stream", n)
		}
		w.boxes.forget("full")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if left := w.redis.left(key); len(left) != 0 {
			t.Errorf("left once the mailbox had room: %v", left)
		}
		if got, want := figures(t, w.Service), "duplicate=1 expired=1 full=1 quarantined=4 stored=2 failing=0 running=1 waiting=0"; got != want {
			t.Errorf("metrics %s, want %s", got, want)
		}
	})
}

// figures are the metrics by their last label.
func figures(t *testing.T, s *source.Service) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() != "source" {
					parts = append(parts, fmt.Sprintf("%s=%v", l.GetValue(), m.GetCounter().GetValue()+m.GetGauge().GetValue()))
				}
			}
		}
	}
	return strings.Join(parts, " ")
}

func TestNothingIsDeletedThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		w.boxes.fail(errDown)
		hour := time.Now().Add(time.Hour)
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", hour), entry("2-0", "ann", "soon", time.Now().Add(30*time.Second)))
		w.set(t, "shop", source.Change{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if left := w.redis.left("Nann{1}"); len(left) != 2 {
			t.Errorf("left in Redis while nothing can be stored: %v", left)
		}
		if i := w.info(t, "shop"); i.State != source.Failing || !strings.Contains(i.Error, "not there") || i.Since.IsZero() {
			t.Errorf("%+v", i)
		}
		since := w.info(t, "shop").Since
		time.Sleep(50 * time.Second) // meanwhile a scan finds that Redis works
		if i := w.info(t, "shop"); i.State != source.Failing || !i.Since.Equal(since) {
			t.Errorf("%+v", i)
		}
		w.boxes.fail(nil)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got, left := w.boxes.stored(), w.redis.left("Nann{1}"); !slices.Equal(got, []string{"shop/ann/n"}) || len(left) != 0 {
			t.Errorf("stored %v, left %v", got, left)
		}
		if i := w.info(t, "shop"); i.State != source.Running || i.Error != "" || i.Counts != (source.Counts{Stored: 1, Expired: 1}) {
			t.Errorf("%+v", i)
		}
	})
}

func TestALostRedisIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		w.redis.fail(errDown)
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		if i := w.info(t, "shop"); i.State != source.Failing || i.Finding != "" {
			t.Errorf("before it is there: %+v", i)
		}
		w.redis.fail(nil)
		time.Sleep(31 * time.Second)
		hour := time.Now().Add(time.Hour)
		w.redis.fail(errDown)
		w.redis.add("Nann{1}", true, entry("1-0", "ann", "n", hour))
		synctest.Wait()
		if i := w.info(t, "shop"); i.State != source.Failing {
			t.Errorf("after it was lost: %+v", i)
		}
		w.redis.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if i := w.info(t, "shop"); i.State != source.Running || len(w.boxes.stored()) != 1 {
			t.Errorf("%+v, stored %v", i, w.boxes.stored())
		}
		if n := strings.Count(w.log.String(), "source cannot be read"); n != 2 {
			t.Errorf("said %d times that Redis is away, which it was twice", n)
		}
	})
}

func TestUndeletedEntryIsADuplicateNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		hour := time.Now().Add(time.Hour)
		w.boxes.answers["n"] = func(*delivery.Copy) { w.redis.fail(errDown) } // between storing and deleting
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", hour))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		w.boxes.forget("n")
		w.redis.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, left := w.boxes.stored(), w.redis.left("Nann{1}"); len(got) != 1 || len(left) != 0 {
			t.Errorf("stored %v, left %v", got, left)
		}
		w.stop()
	})
}

func TestALongStreamIsReadToItsEndAndKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		hour := time.Now().Add(time.Hour)
		for i := range 500 {
			w.redis.add("Nann{1}", false, entry(fmt.Sprint(i, "-0"), "ann", fmt.Sprint("n", i), hour))
		}
		w.redis.add("Nbob{1}", false, entry("1-0", "bob", "n", hour))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		got := w.boxes.stored()
		if len(got) != 501 || slices.Index(got, "shop/bob/n") > 50 {
			t.Errorf("stored %d, that of bob as number %d", len(got), slices.Index(got, "shop/bob/n"))
		}
		for i := range 500 {
			if at := slices.Index(got, fmt.Sprint("shop/ann/n", i)); at < i {
				t.Fatalf("n%d is stored as number %d", i, at)
			}
		}
	})
}

func TestMoreStreamsThanAreQueuedAreAllRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		hour := time.Now().Add(time.Hour)
		for i := range 12_000 {
			who := fmt.Sprint("c", i)
			w.redis.add("N"+who+"{1}", false, entry("1-0", who, "n", hour))
		}
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		if n := len(w.boxes.stored()); n != 12_000 {
			t.Errorf("stored %d", n)
		}
		if w.boxes.largest > 64*16 {
			t.Errorf("%d were published at once", w.boxes.largest)
		}
	})
}

func TestChangesTakeEffectAndRemovingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		password, hour := "p w@/", time.Now().Add(time.Hour)
		w.set(t, "shop", source.Change{Values: from(password, []string{"redis://me@a.example:1", "redis://b.example:2"}, []string{"ann"}), Private: true})
		synctest.Wait()
		target := w.redis.targets[0]
		if !slices.Equal(target.URLs, []string{"redis://me:p%20w%40%2F@a.example:1", "redis://:p%20w%40%2F@b.example:2"}) || !target.Targets.Everything() || !slices.Equal(target.Recipients, []string{"ann"}) {
			t.Errorf("target %+v", target)
		}
		off, on := false, true
		if i := w.set(t, "shop", source.Change{Values: from("", []string{"redis://me@a.example:1", "redis://b.example:2"}, nil), Enabled: &on}); !i.Private {
			t.Error("the same URLs may not lead to private addresses any more")
		}
		if i := w.set(t, "shop", source.Change{Values: from(password, []string{"redis://r.example"}, nil), Enabled: &off}); i.State != source.Paused || i.Values.Text(streams.FieldPassword) != password || i.Private {
			t.Errorf("%+v", i)
		}
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", hour))
		time.Sleep(time.Minute)
		if got := w.boxes.stored(); len(got) != 0 {
			t.Errorf("stored %v although it is switched off", got)
		}
		// Another process switches it on.
		_ = w.settings.Update(t.Context(), "shop", streams.Name, func(s *source.Source, _ int) error { s.Enabled = true; return nil })
		w.settings.changed <- struct{}{}
		synctest.Wait()
		if got := w.boxes.stored(); len(got) != 1 {
			t.Errorf("stored %v after it was switched on elsewhere", got)
		}
		if _, err := w.Delete(t.Context(), "shop", streams.Name, setting.Match{}); err != nil {
			t.Error(err)
		}
		w.redis.add("Nann{1}", true, entry("2-0", "ann", "m", hour))
		time.Sleep(time.Minute)
		if got := w.boxes.stored(); len(got) != 1 {
			t.Errorf("stored %v although it is removed", got)
		}
		for what, app := range map[string]string{"deleted twice": "shop", "another app's": "other"} {
			if _, err := w.Delete(t.Context(), app, streams.Name, setting.Match{}); !errors.Is(err, source.ErrNone) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, _, err := w.Set(t.Context(), "nobody", streams.Name, source.Change{Values: from("", []string{"redis://a.example"}, nil)}); !errors.Is(err, access.ErrUnknownApp) {
			t.Errorf("source of no app: %v", err)
		}
		if strings.Contains(fmt.Sprintf("%+v %s", w.List("shop"), w.log), "p w") {
			t.Error("the password is shown")
		}
	})
}

func TestOnlyTheOwnerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		give := make(chan func(context.Context, func() bool), 1)
		var names []string
		w := begin(t, func(c *source.Config) {
			c.Own = func(name string, run func(context.Context, func() bool)) func() {
				names = append(names, name)
				give <- run
				return func() {}
			}
		})
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", time.Now().Add(time.Hour)))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		if i := w.info(t, "shop"); i.State != source.Waiting || len(w.boxes.stored()) != 0 {
			t.Errorf("without owning it: %+v, stored %v", i, w.boxes.stored())
		}
		run := <-give
		ctx, lose := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); run(ctx, func() bool { return true }) }()
		synctest.Wait()
		if i := w.info(t, "shop"); i.State != source.Running || len(w.boxes.stored()) != 1 {
			t.Errorf("owning it: %+v, stored %v", i, w.boxes.stored())
		}
		lose()
		<-done
		if i := w.info(t, "shop"); i.State != source.Waiting {
			t.Errorf("after losing it: %+v", i)
		}
		if !slices.Equal(names, []string{"redisstream/shop"}) {
			t.Errorf("asked to own %v", names)
		}
		w.stop()
	})
}

func TestTooLateExpiryIsClampedToTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		defer w.stop()
		w.redis.add("Nann{1}", false, entry("1-0", "ann", "n", time.Now().Add(90*24*time.Hour)))
		w.set(t, "shop", source.Change{})
		synctest.Wait()
		if d := w.boxes.drafts["n"]; d == nil || time.Until(d.ExpiresAt) != notification.MaxTTL {
			t.Errorf("published %+v", d)
		}
	})
}
