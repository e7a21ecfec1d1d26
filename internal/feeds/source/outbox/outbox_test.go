package outbox_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
)

func TestRowsAreStoredInOrderAndDeleted(t *testing.T) {
	each(t, func(w *world) {
		w.insert(`{"to":"ann","title":"before"}`)
		w.Start(true)
		w.Gets("ann before")
		w.Becomes(source.Running, "")
		w.insert(`{"to":"ann","title":"1"}`, `{"to":"bob","title":"2"}`, `{"put":{"group":"gates","object":"a","payload":"open"}}`, `{"to":"ann","title":"3"}`)
		w.Gets("ann 1", "bob 2", `gates/a "open"`, "ann 3")
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
	})
}

func TestAnInvalidRowGoesToQuarantineAlone(t *testing.T) {
	each(t, func(w *world) {
		w.Start(true)
		long := `{"to":"ann","title":"` + strings.Repeat("x", 256<<10) + `"}`
		w.insert(`{"to":"ann","title":"1"}`, `{"title":"nobody"}`, `[]`, long, `{"to":"ann","title":"2"}`)
		w.Gets("ann 1", "ann 2")
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		list, err := w.Records.Quarantine(w.Context(), setting.Place{App: "shop", Name: w.Name}, 0, 10)
		if err != nil || len(list) < 2 || string(list[0].Text) != `{"title":"nobody"}` || !strings.Contains(list[len(list)-1].Why, "more than 262144 bytes") || len(list[len(list)-1].Text) != source.MaxSetAsideText {
			w.Errorf("in quarantine are %d: %.300v, %v", len(list), list, err)
		}
	})
}

func TestARowWhoseMailboxIsFullStaysAndBlocksNoOther(t *testing.T) {
	each(t, func(w *world) {
		w.Fill("full", true)
		var many []string
		for i := range 700 { // more than a page
			many = append(many, fmt.Sprintf(`{"to":"full","title":"%d"}`, i))
		}
		w.insert(many...)
		w.insert(`{"to":"ann","title":"1"}`)
		w.Start(true)
		w.Gets("ann 1")
		w.Becomes(source.Running, "700 rows wait")
		w.insert(`{"to":"ann","title":"2"}`)
		w.Gets("ann 2")
		w.rows("700", "SELECT COUNT(*) FROM godwit_outbox")
		if l := w.Info().Lag; l == nil || l.Entries < 700 || l.Time <= 0 || l.Time.Hours() > 1 {
			w.Errorf("the lag is %+v", l)
		}
		w.Fill("full", false)
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		w.Becomes(source.Running, "")
	})
}

func TestARowThatCommitsLateIsFound(t *testing.T) {
	each(t, func(w *world) {
		w.Start(true)
		commit := w.db.begin(w.T, `INSERT INTO godwit_outbox (body) VALUES ('{"to":"ann","title":"late"}')`)
		w.insert(`{"to":"ann","title":"first"}`)
		w.Gets("ann first")
		commit()
		w.Gets("ann late")
	})
}

func TestARowIsADuplicateWhenItIsReadAgain(t *testing.T) {
	each(t, func(w *world) {
		w.Start(true)
		const copies = "INSERT INTO godwit_outbox (id, body, created_at) VALUES (7, '{\"to\":\"ann\",\"title\":\"once\"}', '2026-01-02 03:04:05')"
		w.db.exec(w.T, copies)
		w.Gets("ann once")
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		w.db.exec(w.T, copies)
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		w.db.exec(w.T, strings.Replace(copies, "03:04:05", "03:04:06", 1)) // the number alone is the same
		w.Gets("ann once")
	})
}

func TestRowsAreMarkedInstead(t *testing.T) {
	each(t, func(w *world) {
		w.db.exec(w.T, "ALTER TABLE godwit_outbox ADD done_at TIMESTAMP NULL")
		setting.Put(w.Values, outbox.FieldMark, true)
		w.insert(`{"to":"ann","title":"1"}`)
		w.Start(true)
		w.Gets("ann 1")
		w.Becomes(source.Running, "no index has those that wait")
		w.rows("1", "SELECT COUNT(*) FROM godwit_outbox WHERE done_at IS NOT NULL")
		w.insert(`{"to":"ann","title":"2"}`)
		w.Gets("ann 2")
	})
}

func TestDebeziumsColumnsAreReadAsTheyAre(t *testing.T) {
	each(t, func(w *world) {
		for _, table := range []string{"outboxevent", "states"} {
			w.db.exec(w.T, "CREATE TABLE "+table+" (id char(36) NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload varchar(4000), created_at timestamp DEFAULT CURRENT_TIMESTAMP)")
		}
		const row = " (id, aggregatetype, aggregateid, type, payload, created_at) VALUES "
		w.db.exec(w.T, "INSERT INTO outboxevent"+row+`('ffff', 'order', 'ann', 'OrderCreated', '{"total":3}', '2026-01-01 10:00:00'), ('aaaa', 'order', 'ann', 'OrderPaid', NULL, '2026-01-01 10:00:01')`)
		setting.Put(w.Values, outbox.FieldTable, "outboxevent")
		w.Start(true)
		w.Gets(`ann  {"aggregatetype":"order","payload":{"total":3},"type":"OrderCreated"}`, `ann  {"aggregatetype":"order","payload":null,"type":"OrderPaid"}`)
		if w.IDs()["ffff"] != 1 || w.IDs()["aaaa"] != 1 {
			w.Errorf("the notifications' ids are %v", w.IDs())
		}
	})
}

func TestDebeziumsRowsMayBeVersionsOfObjects(t *testing.T) {
	each(t, func(w *world) {
		w.db.exec(w.T, "CREATE TABLE states (id char(36) NOT NULL PRIMARY KEY, aggregatetype varchar(255), aggregateid varchar(255), type varchar(255), payload varchar(4000), created_at timestamp DEFAULT CURRENT_TIMESTAMP)")
		w.db.exec(w.T, `INSERT INTO states (id, aggregatetype, aggregateid, type, payload) VALUES ('1', 'gates', 'a', 'Opened', 'open'), ('2', 'gates', 'b', 'Closed', '')`)
		setting.Put(w.Values, outbox.FieldTable, "states")
		setting.Put(w.Values, outbox.FieldObjects, true)
		w.Start(true)
		w.Gets(`gates/a "open"`, "gates/b is unknown")
	})
}

func TestATableThatCannotBeReadIsNamed(t *testing.T) {
	each(t, func(w *world) {
		setting.Put(w.Values, outbox.FieldTable, "nowhere")
		w.Start(true)
		w.Becomes(source.Failing, "read the table nowhere, which godwit source schema prints")
	})
}

// refusals are how kinds say that a place is private.
var refusals = map[string]string{outbox.PostgreSQL: "not public", outbox.MySQL: "not public", outbox.SQLite: "godwit source add on the server"}

func TestPrivatePlacesNeedTheOwnerOfTheDataFolder(t *testing.T) {
	each(t, func(w *world) {
		w.insert(`{"to":"ann","title":"1"}`)
		w.Start(false)
		w.Becomes(source.Failing, refusals[w.Name])
		w.Gets()
	})
}

func TestGodwitsOwnFilesAreNoOutbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.SQLite)
	w.ours = true
	w.Start(true)
	w.Becomes(source.Failing, "data folder")
}

func TestTwoSourcesOfOneTableAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        string
		one, other  string
		table, says string
	}{
		{outbox.PostgreSQL, "postgres://u@DB.example/shop", "postgresql://v@db.example:5432/shop?sslmode=require", "", "already reads the same"},
		{outbox.PostgreSQL, "postgres://u@db.example/shop", "postgres://u@db.example/shop", "other", ""},
		{outbox.PostgreSQL, "postgres://u@db.example/shop", "postgres://u@db.example/stock", "", ""},
		{outbox.MySQL, "mysql://u@db.example/shop", "mariadb://u@db.example:3306/shop/", "godwit_outbox", "already reads the same"},
		{outbox.MySQL, "mysql://u@h/shop?socket=/a", "mysql://u@h/shop?socket=/b", "", ""},
		{outbox.SQLite, "/srv/shop.db", "/srv/shop.db", "", "already reads the same"},
		{outbox.PostgreSQL, "postgres://u@db.example/shop", "postgres://u@db.example/shop", "public.godwit_outbox", "already reads the same"},
		{outbox.PostgreSQL, "postgres://u@db.example/shop", "postgres://u@db.example/shop", "sales.godwit_outbox", ""},
		{outbox.MySQL, "mysql://u@db.example/shop", "mysql://u@db.example/shop", "shop.godwit_outbox", "already reads the same"},
		{outbox.MySQL, "mysql://u@db.example/shop", "mysql://u@db.example/stock", "shop.godwit_outbox", "already reads the same"},
		{outbox.MySQL, "mysql://u@db.example/shop", "mysql://u@db.example/shop", "stock.godwit_outbox", ""},
		{outbox.SQLite, "/srv/shop.db", "/srv/shop.db", "main.Godwit_Outbox", "already reads the same"},
	} {
		k := outbox.Kinds(nil)[c.kind]
		v, w := setting.Values{}, setting.Values{}
		field := outbox.FieldURL
		if c.kind == outbox.SQLite {
			field = outbox.FieldPath
		}
		setting.Put(v, field, c.one)
		setting.Put(w, field, c.other)
		setting.Put(w, outbox.FieldTable, c.table)
		for _, app := range []string{"one", "two"} {
			s, err := source.New(t.Context(), source.Config{Store: &sourcetest.Settings{One: &source.Source{App: "one", Name: "first", Kind: c.kind, Values: v}}, Kinds: map[string]source.Kind{c.kind: k}, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = s.Set(t.Context(), app, "second", source.Change{Kind: c.kind, Values: w})
			refused := err != nil && strings.Contains(err.Error(), "already reads the same")
			if named := err != nil && strings.Contains(err.Error(), "first"); refused != (c.says != "") || named != (refused && app == "one") {
				t.Errorf("%s beside %s: %v", c.other, c.one, err)
			}
			if refused && !strings.Contains(err.Error(), "table godwit_outbox of") && c.table == "" {
				t.Errorf("the table is not named: %v", err)
			}
			if _, _, err := s.Set(t.Context(), "one", "first", source.Change{Values: v}); refused && err != nil {
				t.Errorf("a source is refused itself: %v", err)
			}
		}
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	kinds := outbox.Kinds(nil)
	for _, c := range []struct{ kind, field, value, says string }{
		{outbox.PostgreSQL, "url", "", "url: is required"},
		{outbox.PostgreSQL, "url", "mysql://u@h/d", "is not a URL like postgres://"},
		{outbox.PostgreSQL, "url", "postgres://h/d", "must name the user"},
		{outbox.PostgreSQL, "url", "postgres://u@h", "must name the database"},
		{outbox.PostgreSQL, "url", "postgres://u:secret@h/d", "must not contain a password"},
		{outbox.PostgreSQL, "url", "postgres://u@h/d?sslkey=/etc/key", `may not have "sslkey"`},
		{outbox.PostgreSQL, "url", "postgres://u@h/d?host=other", "only be the path of a socket"},
		{outbox.MySQL, "url", "mysql://u@h/d?allowAllFiles=true", `may not have "allowAllFiles"`},
		{outbox.MySQL, "url", "mysql://u@h/d?sslmode=maybe", "sslmode must be one of"},
		{outbox.MySQL, "url", "mysql://u@0.0.0.0/d", "names no host"},
		{outbox.SQLite, "path", "", "path: is required"},
		{outbox.SQLite, "path", "shop.db", "must begin with /"},
		{outbox.SQLite, "table", "a; DROP TABLE b", "must be the name of a table"},
	} {
		v := setting.Values{}
		if c.kind == outbox.SQLite {
			setting.Put(v, "path", "/x")
		}
		setting.Put(v, c.field, c.value)
		if err := kinds[c.kind].Check(v); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s=%q: %v", c.kind, c.field, c.value, err)
		}
	}
	v := setting.Values{}
	setting.Put(v, "url", "mysql://u:secret@h/d")
	kinds[outbox.MySQL].(setting.Tidier).Tidy(v)
	if err := kinds[outbox.MySQL].Check(v); err != nil || v.Text("url") != "mysql://u@h/d" || v.Text("password") != "secret" {
		t.Errorf("tidied to %s, %v", v.Text("url"), err)
	}
}

func TestTheQuarantineOutlivesTheConnection(t *testing.T) {
	each(t, func(w *world) {
		w.insert(`{"titel":"1"}`)
		w.Start(true)
		w.Quarantine(1)
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox") // before that a stop has the row set aside once more
		w.Stop()
		w.Run()
		w.insert(`{"to":"ann","title":"2"}`)
		w.Gets("ann 2")
		w.Quarantine(1)
	})
}
