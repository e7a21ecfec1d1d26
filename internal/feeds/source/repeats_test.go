package source_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

func TestOfPutsOfAnObjectWithinACommitTheLastStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &sinkhole{}
		var before []string
		k := &script{run: func(ctx context.Context, _ source.Target, e source.Emitter) error {
			emit := func(entries ...source.Entry) {
				if _, err := e.Emit(ctx, entries); err != nil {
					t.Error(err)
				}
			}
			commit := func(n, times int, last bool) (list []source.Entry) {
				for i := range times {
					list = append(list, source.Entry{Version: 1000, Last: last && i == times-1, Body: []byte(strings.Repeat("put-a put-b ", n))})
				}
				return list
			}
			emit(commit(1, 20, false)...)
			emit(commit(1, 20, false)...)
			before = slices.Clone(to.got)
			emit(commit(1, 1, true)...)
			emit(source.Entry{Version: 1030, Last: true, Body: []byte("delete-a put-a")})
			return nil
		}}
		running(t, k, to, "words")
		last := func(list []string, object string) string {
			for _, s := range slices.Backward(list) {
				if strings.Contains(s, object) {
					return s
				}
			}
			return ""
		}
		if got := last(before, "put-a"); got != "shop put g/put-a 1028" {
			t.Errorf("before the commit ends the last put is %q", got)
		}
		ended := to.got[:len(to.got)-2]
		for _, object := range []string{"put-a", "put-b"} {
			if got := last(ended, object); got != "shop put g/"+object+" 1029" {
				t.Errorf("the commit ends with %q", got)
			}
		}
		if want := []string{"shop delete g/delete-a", "shop put g/put-a 1030"}; !slices.Equal(to.got[len(ended):], want) {
			t.Errorf("the next commit is %q", to.got[len(ended):])
		}
	})
}

func TestACommitIsCompleteBeforeTheNextIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &sinkhole{}
		k := &script{run: func(ctx context.Context, _ source.Target, e source.Emitter) error {
			publish := func(id string, version object.Version) source.Entry {
				return source.Entry{Version: version, Last: version != 1000, Publish: &notification.Draft{To: []string{"ann"}, ID: id}}
			}
			var entries []source.Entry
			for range 40 {
				entries = append(entries, source.Entry{Version: 1000, Body: []byte("put-a")})
			}
			entries = append(entries, publish("same", 1000), source.Entry{Version: 1000, Last: true, Publish: &notification.Draft{To: []string{"ann"}, ID: "last"}}, publish("next", 1030), publish("after", 1060))
			_, err := e.Emit(ctx, entries)
			return err
		}}
		running(t, k, to, "words")
		want := []string{"shop publish same", "shop publish last", "shop put g/put-a 1029", "shop publish next", "shop publish after"}
		if got := to.got[len(to.got)-len(want):]; !slices.Equal(got, want) {
			t.Errorf("at the end come %q, want %q", got, want)
		}
	})
}
