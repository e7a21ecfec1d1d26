package jetstream_test

import (
	"log/slog"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
)

func TestTwoSourcesOfOneConsumerAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, stream, consumer, user string
		refused                     bool
	}{
		{"nats://n.example", "ORDERS", "", "god", false}, // its own consumer
		{"nats://N.example:4222", "ORDERS", "godwit_one_first", "god", true},
		{"tls://n.example", "ORDERS", "godwit_one_first", "god", true},
		{"nats://n.example", "ORDERS", "godwit_one_first", "another-account", false},
		{"nats://n.example", "RIDES", "godwit_one_first", "god", false},
		{"nats://m.example", "ORDERS", "godwit_one_first", "god", false},
	} {
		values := func(url, stream, consumer, user string) setting.Values {
			v := setting.Values{}
			setting.Put(v, jetstream.FieldURL, url)
			setting.Put(v, jetstream.FieldStream, stream)
			setting.Put(v, jetstream.FieldConsumer, consumer)
			setting.Put(v, jetstream.FieldUser, user)
			return v
		}
		first := &source.Source{App: "one", Name: "first", Kind: jetstream.Name, Enabled: true, Values: values("nats://n.example:4222", "ORDERS", "", "god")}
		for _, app := range []string{"one", "two"} {
			s, err := source.New(t.Context(), source.Config{
				Store: &sourcetest.Settings{One: first}, Kinds: map[string]source.Kind{jetstream.Name: jetstream.Kind{}}, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = s.Set(t.Context(), app, "second", source.Change{Kind: jetstream.Name, Values: values(c.url, c.stream, c.consumer, c.user)})
			if refused := err != nil && strings.Contains(err.Error(), "already reads the same: the consumer godwit_one_first of the stream ORDERS"); refused != c.refused || err != nil && !refused {
				t.Errorf("%+v in the app %s: %v", c, app, err)
			}
		}
	}
}
