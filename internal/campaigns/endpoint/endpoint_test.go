package endpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, targets urlguard.Targets) *endpoint.Service {
	t.Helper()
	return endpoint.New(endpoint.Config{Store: sqlitetest.Campaigns(t), Now: time.Now, Targets: targets})
}

func fcm(token string) audience.Endpoint {
	return audience.Endpoint{Channel: push.FCM, Address: json.RawMessage(fmt.Sprintf(`{"token":%q}`, token))}
}

func chat(id int) audience.Endpoint {
	return audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, id))}
}

func with(e audience.Endpoint, change func(*audience.Endpoint)) audience.Endpoint {
	change(&e)
	return e
}

var (
	backEnd = &endpoint.Holder{App: "shop", BackEnd: true}
	ada     = &endpoint.Holder{App: "shop", Recipient: "ada"}
	visitor = &endpoint.Holder{App: "shop"}
)

func TestRightsToRegisterEndpoints(t *testing.T) {
	s := open(t, urlguard.Targets{})
	bobs := with(fcm("t"), func(e *audience.Endpoint) { e.Recipient = "bob" })
	named := with(fcm("t"), func(e *audience.Endpoint) { e.ID = audience.NewUUID() })
	inside := audience.Endpoint{Channel: push.Webhook, Address: json.RawMessage(`{"url":"http://10.0.0.1/"}`)}
	for what, c := range map[string]struct {
		who   *endpoint.Holder
		e     audience.Endpoint
		field string // field in the error; "-": not allowed; empty: no error
	}{
		"a back end, for anybody":           {backEnd, bobs, ""},
		"a back end, an id":                 {backEnd, named, ""},
		"a back end, a chat":                {backEnd, chat(1), ""},
		"a back end, an address inside":     {backEnd, inside, "address.url"},
		"a client, its device":              {ada, fcm("t"), ""},
		"a client, another's device":        {ada, bobs, "-"},
		"a client, an id":                   {ada, named, "id"},
		"a client, a chat":                  {ada, chat(1), "channel"},
		"a visitor, its device":             {visitor, fcm("t"), ""},
		"a visitor, somebody's device":      {visitor, bobs, "recipient"},
		"a visitor, a chat":                 {visitor, chat(1), "channel"},
		"a visitor, on a channel of nobody": {visitor, audience.Endpoint{Channel: "pigeon"}, "channel"},
	} {
		r, err := s.Registration(c.who, c.e)
		var field *notification.FieldError
		var not *endpoint.NotAllowedError
		switch {
		case c.field == "" && err == nil:
			if r.Trusted != c.who.BackEnd || c.who == ada && r.Endpoint.Recipient != "ada" {
				t.Errorf("%s: %+v", what, r)
			}
		case c.field == "-" && errors.As(err, &not):
		case c.field != "" && errors.As(err, &field) && field.Field == c.field:
		default:
			t.Errorf("%s: %v, want an error of %q", what, err, c.field)
		}
	}
}

// Only an admin registers webhooks that lead to the operator's targets. Nobody registers browsers that do.
func TestOnlyAnAdminLeadsWebhooksToTheOperatorsTargets(t *testing.T) {
	targets, err := urlguard.ParseTargets([]string{"10.0.0.1", "hooks.internal"})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, targets)
	admin := &endpoint.Holder{App: "shop", BackEnd: true, Admin: true}
	hook := func(url string) audience.Endpoint {
		return audience.Endpoint{Channel: push.Webhook, Address: json.RawMessage(fmt.Sprintf(`{"url":%q}`, url))}
	}
	browser := audience.Endpoint{Channel: push.WebPush, Address: json.RawMessage(`{"endpoint":"https://10.0.0.1/x","keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`)}
	for _, c := range []struct {
		what    string
		who     *endpoint.Holder
		e       audience.Endpoint
		refused string
	}{
		{"an admin, a target", admin, hook("http://10.0.0.1/"), ""},
		{"an admin, another address", admin, hook("https://10.0.0.2/"), "the operator may allow it with allow_targets"},
		{"a back end, a target", backEnd, hook("https://10.0.0.1/"), "only an API key with role admin"},
		{"an admin, a host", admin, hook("http://hooks.internal/"), ""},
		{"a back end, a host", backEnd, hook("https://hooks.internal/"), "only an API key with role admin"},
		{"a back end, a public host", backEnd, hook("https://hooks.example.org/"), ""},
		{"a back end, another address", backEnd, hook("https://10.0.0.2/"), "allow_targets"},
		{"an admin, a browser's address", admin, browser, "not public"},
		{"a visitor, a browser's address", visitor, browser, "not public"},
	} {
		_, err := s.Registration(c.who, c.e)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.what, err, c.refused)
		}
		if err != nil && c.e.Channel == push.WebPush && strings.Contains(err.Error(), "allow_targets") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestStrangersAreToldThatThereIsNoSuchEndpoint(t *testing.T) {
	s := open(t, urlguard.Targets{})
	r, err := s.Registration(ada, fcm("one"))
	if err != nil {
		t.Fatal(err)
	}
	done, token, err := s.RegisterOne(t.Context(), "shop", r)
	if err != nil || token == "" {
		t.Fatalf("%+v, token %q, %v", done, token, err)
	}
	id := done.Endpoint.ID
	touch := func(*audience.Endpoint) {}
	for _, who := range []*endpoint.Holder{backEnd, ada, {App: "shop", Token: token}} {
		if _, err := s.Find(t.Context(), who, id); err != nil {
			t.Errorf("%+v: %v", who, err)
		}
		if _, err := s.Change(t.Context(), who, id, touch); err != nil {
			t.Errorf("%+v: %v", who, err)
		}
	}
	_, other := audience.NewToken()
	for _, who := range []*endpoint.Holder{visitor, {App: "shop", Recipient: "bob"}, {App: "shop", Token: fmt.Sprint(other)}, {App: "other", BackEnd: true}} {
		if _, err := s.Find(t.Context(), who, id); !errors.Is(err, audience.ErrNotFound) {
			t.Errorf("%+v found it: %v", who, err)
		}
		if _, err := s.Change(t.Context(), who, id, touch); !errors.Is(err, audience.ErrNotFound) {
			t.Errorf("%+v changed it: %v", who, err)
		}
	}
	if again, token, err := s.RegisterOne(t.Context(), "shop", audience.Registration{Endpoint: r.Endpoint, Trusted: true}); err != nil || token != "" || again.Created {
		t.Errorf("a back end took the holder's token away: %+v, %q, %v", again, token, err)
	}
}

func TestOnlyABackEndMovesAChat(t *testing.T) {
	s := open(t, urlguard.All)
	r, err := s.Registration(backEnd, with(chat(1), func(e *audience.Endpoint) { e.Recipient = "ada" }))
	if err != nil {
		t.Fatal(err)
	}
	done, _, err := s.RegisterOne(t.Context(), "shop", r)
	if err != nil {
		t.Fatal(err)
	}
	move := func(e *audience.Endpoint) { e.Address = json.RawMessage(`{"chat_id":2}`) }
	var not *endpoint.NotAllowedError
	if _, err := s.Change(t.Context(), ada, done.Endpoint.ID, move); !errors.As(err, &not) {
		t.Errorf("a client moved it: %v", err)
	}
	if _, err := s.Change(t.Context(), backEnd, done.Endpoint.ID, move); err != nil {
		t.Error(err)
	}
	for field, want := range map[string]bool{"recipient": false, "status": false, "disabled_reason": false, "tags": true} {
		if err := ada.MayChange(field); (err == nil) != want || backEnd.MayChange(field) != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestADeviceThatMovesIsActiveAgain(t *testing.T) {
	s := open(t, urlguard.Targets{})
	r, err := s.Registration(visitor, fcm("old"))
	if err != nil {
		t.Fatal(err)
	}
	done, token, err := s.RegisterOne(t.Context(), "shop", r)
	if err != nil {
		t.Fatal(err)
	}
	disable := func(e *audience.Endpoint) { e.Status, e.DisabledReason = audience.Disabled, "gone" }
	move := func(to string) func(e *audience.Endpoint) {
		return func(e *audience.Endpoint) { e.Address = fcm(to).Address }
	}
	holder := &endpoint.Holder{App: "shop", Token: token}
	for _, c := range []struct {
		what   string
		who    *endpoint.Holder
		change func(*audience.Endpoint)
		want   audience.Status
	}{
		{"its provider says that it is gone", backEnd, disable, audience.Disabled},
		{"its holder changes something else", holder, func(e *audience.Endpoint) { e.Tags = []string{"a"} }, audience.Disabled},
		{"its holder says the old address", holder, move("old"), audience.Disabled},
		{"a back end moves it", backEnd, move("new"), audience.Disabled},
		{"its holder moves it", holder, move("newer"), audience.Active},
	} {
		e, err := s.Change(t.Context(), c.who, done.Endpoint.ID, c.change)
		if err != nil || e.Status != c.want || (e.DisabledReason == "") != (c.want == audience.Active) {
			t.Errorf("%s: %v %q, %v, want %v", c.what, e.Status, e.DisabledReason, err, c.want)
		}
	}
}

func TestChatsComeAndGoByThemselves(t *testing.T) {
	s := open(t, urlguard.Targets{})
	one := chat(1).Address
	active := func() int64 {
		t.Helper()
		n, _, err := s.Totals(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		return n[push.Telegram]
	}
	for i, step := range []struct {
		do   func() error
		want int64
	}{
		{func() error { return s.Leave(t.Context(), "shop", push.Telegram, one, "left") }, 0}, // never seen
		{func() error { return s.Join(t.Context(), "shop", push.Telegram, one, "no language", "") }, 1},
		{func() error { return s.Leave(t.Context(), "shop", push.Telegram, one, "left") }, 0},
		{func() error { return s.Join(t.Context(), "shop", push.Telegram, one, "nb", "Ada") }, 1},
	} {
		if err := step.do(); err != nil || active() != step.want {
			t.Errorf("step %d: %v, %d active, want %d", i, err, active(), step.want)
		}
	}
	if err := s.Join(t.Context(), "shop", push.Telegram, json.RawMessage(`{}`), "", ""); err == nil {
		t.Error("an address without a chat was taken")
	}
	named := func() audience.Attributes {
		t.Helper()
		sel, err := (&audience.Audience{}).Select("")
		if err != nil {
			t.Fatal(err)
		}
		list, _, _, err := s.List(t.Context(), "shop", audience.Active, sel, 0, 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].Attributes
	}
	if got := named()[endpoint.FirstName]; got != audience.Text("Ada") {
		t.Errorf("the first name is %s", got)
	}
	if err := s.Join(t.Context(), "shop", push.Telegram, one, "nb", "Eve"); err != nil || named()[endpoint.FirstName] != audience.Text("Ada") {
		t.Errorf("a name that was there became %s (%v)", named()[endpoint.FirstName], err)
	}
	if err := s.Join(t.Context(), "shop", push.Telegram, one, "nb", strings.Repeat("x", 1<<16)); err != nil {
		t.Errorf("a name that is too long keeps somebody out: %v", err)
	}
}

func TestOnlyWhatIsNewIsTold(t *testing.T) {
	store := sqlitetest.Campaigns(t)
	var told []audience.ID
	s := endpoint.New(endpoint.Config{Store: store, Now: time.Now, Created: func(e audience.Endpoint) { told = append(told, e.ID) }})
	reg := audience.Registration{Endpoint: fcm("a"), Trusted: true}
	one, _, err := s.RegisterOne(t.Context(), "shop", reg)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.RegisterOne(t.Context(), "shop", reg); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), "shop", []audience.Registration{{Endpoint: fcm("b"), Trusted: true}}); err != nil { // an import in a batch: another service has already greeted these subscribers
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != one.Endpoint.ID {
		t.Errorf("told of %v, want %v alone", told, one.Endpoint.ID)
	}
}

func TestClientsEndpointsAreLimited(t *testing.T) {
	s := open(t, urlguard.Targets{})
	register := func(who *endpoint.Holder, e audience.Endpoint) error {
		r, err := s.Registration(who, e)
		if err == nil {
			_, _, err = s.RegisterOne(t.Context(), "shop", r)
		}
		return err
	}
	for i := range endpoint.MaxOfClient {
		if err := register(ada, fcm(fmt.Sprint("t", i))); err != nil {
			t.Fatalf("the %dth: %v", i+1, err)
		}
	}
	var no *endpoint.NotAllowedError
	if err := register(ada, fcm("one-more")); !errors.As(err, &no) || !strings.Contains(err.Error(), "at most 50") {
		t.Errorf("one more: %v", err)
	}
	if err := register(ada, fcm("t7")); err != nil {
		t.Errorf("one that is there cannot be renewed: %v", err)
	}
	if err := register(&endpoint.Holder{App: "shop", Recipient: "bob"}, fcm("of-bob")); err != nil {
		t.Errorf("another recipient: %v", err)
	}
	if err := register(backEnd, with(fcm("by-back-end"), func(e *audience.Endpoint) { e.Recipient = "ada" })); err != nil {
		t.Errorf("a back end: %v", err)
	}
	all, err := s.Of(t.Context(), "shop", "ada")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // disabled endpoints do not count
		if _, err := s.Change(t.Context(), backEnd, all[i].ID, func(e *audience.Endpoint) { e.Status = audience.Disabled }); err != nil {
			t.Fatal(err)
		}
	}
	if err := register(ada, fcm("one-more")); err != nil {
		t.Errorf("in the place of one that is disabled: %v", err)
	}
}

func TestAnEndpointThatIsGivenToAnotherBringsNothingAlong(t *testing.T) {
	s := open(t, urlguard.Targets{})
	r, err := s.Registration(backEnd, with(fcm("phone"), func(e *audience.Endpoint) { e.Recipient, e.Tags, e.Locale = "ada", []string{"vip"}, "nb" }))
	if err != nil {
		t.Fatal(err)
	}
	done, _, err := s.RegisterOne(t.Context(), "shop", r)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Change(t.Context(), backEnd, done.Endpoint.ID, func(e *audience.Endpoint) { e.GiveTo("bob") })
	if err != nil || e.Recipient != "bob" || len(e.Tags) > 0 || e.Locale != "" || e.Token != (audience.TokenHash{}) {
		t.Errorf("%v, %+v", err, e)
	}
}

func TestAddressesThatTheServerDeliversToItselfMayBePrivate(t *testing.T) {
	var asked []string
	s := endpoint.New(endpoint.Config{Store: sqlitetest.Campaigns(t), Now: time.Now, Delivers: func(app string, ch push.Channel, url string) bool {
		asked = append(asked, app+" "+string(ch))
		return strings.HasPrefix(url, "http://10.0.0.5/wpush/")
	}})
	for url, ok := range map[string]bool{"http://10.0.0.5/wpush/v1/x": true, "http://10.0.0.5/other": false, "http://10.0.0.6/wpush/v1/x": false, "https://push.example.org/x": true} {
		e := audience.Endpoint{Channel: push.WebPush, Address: json.RawMessage(`{"endpoint":"` + url + `","keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`)}
		_, err := s.Registration(visitor, e)
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, a := range asked {
		if a != "shop webpush" {
			t.Errorf("asked for %s", a)
		}
	}
}
