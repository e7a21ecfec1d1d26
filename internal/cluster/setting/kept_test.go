package setting_test

import (
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/notify/notification"
)

// A stored secret must not become readable by a change of where it is sent.
func TestAStoredSecretGoesToNoOtherServerOrUser(t *testing.T) {
	t.Parallel()
	outboxes := outbox.Kinds(nil)
	for _, c := range []struct {
		kind         setting.Kind
		field        string
		before       any
		same, others []any
	}{
		{
			postgres.Kind{},
			"url", "postgres://u@DB.example/shop",
			[]any{"postgresql://u@db.example:5432/stock?sslmode=require", "postgres://db.example/shop?user=u"},
			[]any{"postgres://u@evil.example/shop", "postgres://u@db.example:5433/shop", "postgres://v@db.example/shop", "postgres://u@db.example/shop?user=v", "postgres://u@db.example/shop?host=/tmp", "postgres://u@db.example,evil.example/shop"},
		},
		{
			outboxes[outbox.PostgreSQL], "url", "postgres://u@db.example/shop",
			[]any{"postgres://u@db.example:5432/shop"},
			[]any{"postgres://u@evil.example/shop", "postgres://v@db.example/shop"},
		},
		{
			outboxes[outbox.MySQL], "url", "mysql://u@db.example/shop",
			[]any{"mariadb://u@db.example:3306/shop"},
			[]any{"mysql://u@evil.example/shop", "mysql://u@db.example:3307/shop", "mysql://u@db.example/shop?socket=/tmp/s"},
		},
		{
			jetstream.Kind{},
			"url", "nats://a.example,nats://b.example:4222",
			[]any{"nats://b.example", "tls://a.example:4222"},
			[]any{"nats://a.example,nats://evil.example", "nats://a.example:4223"},
		},
		{
			streams.Kind{},
			"urls",
			[]string{"redis://a.example", "redis://b.example:6379/1"},
			[]any{[]string{"rediss://b.example"}},
			[]any{[]string{"redis://a.example", "redis://evil.example"}, []string{"redis://v@a.example"}, []string{"redis://a.example:6380"}},
		},
		{
			clickhouse.Kind{},
			"url", "https://db.example",
			[]any{"https://db.example:443/?x=1"},
			[]any{"https://evil.example", "http://db.example", "https://db.example:8443"},
		},
	} {
		for _, secret := range secrets(c.kind) {
			before := setting.Values{c.field: setting.JSON(c.before), secret: setting.JSON("sekret")}
			check := func(to any, given ...string) error {
				change := setting.Values{c.field: setting.JSON(to)}
				for _, value := range given {
					setting.Put(change, secret, value)
				}
				return setting.CheckKept(c.kind, before, change, before.Merge(change, c.kind.Fields()))
			}
			for _, to := range c.same {
				if err := check(to); err != nil {
					t.Errorf("%T: %s to %s: %v", c.kind, c.before, to, err)
				}
			}
			for _, to := range c.others {
				var bad *notification.FieldError
				if err := check(to); !errors.As(err, &bad) || bad.Field != secret || !strings.Contains(err.Error(), "give it again") || strings.Contains(err.Error(), "sekret") {
					t.Errorf("%T: %s to %s with the stored %s: %v", c.kind, c.before, to, secret, err)
				}
				if err := check(to, "sekret"); err != nil {
					t.Errorf("%T: %s to %s, given again: %v", c.kind, c.before, to, err)
				}
				if err := check(to, ""); err != nil {
					t.Errorf("%T: %s to %s without a secret: %v", c.kind, c.before, to, err)
				}
			}
		}
	}
}

func TestAnotherUserNeedsTheSecretAgain(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]setting.Kind{"jetstream": jetstream.Kind{}, "clickhouse": clickhouse.Kind{}} {
		at := setting.JSON(map[string]string{"jetstream": "nats://a.example", "clickhouse": "https://a.example"}[name])
		before := setting.Values{"url": at, "user": setting.JSON("u"), "password": setting.JSON("sekret")}
		change := setting.Values{"url": at, "user": setting.JSON("v")}
		if err := setting.CheckKept(k, before, change, before.Merge(change, k.Fields())); err == nil {
			t.Errorf("%s: another user gets the password", name)
		}
	}
}

func secrets(k setting.Kind) (names []string) {
	for _, f := range k.Fields() {
		if f.Secret {
			names = append(names, f.Name)
		}
	}
	return names
}
