package audience

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

const subscription = `{"endpoint":"https://push.example/a?b=c&d","expirationTime":null,"keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU=","auth":"+/8BAgMEBQYHCAkKCwwNDg=="}}`

func TestAddressesHaveOneForm(t *testing.T) {
	for _, c := range []struct {
		channel push.Channel
		in      string
		want    string // "": refused
		field   string
	}{
		{push.WebPush, subscription, `{"endpoint":"https://push.example/a?b=c&d","keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"-_8BAgMEBQYHCAkKCwwNDg"}}`, ""},
		{push.WebPush, `{}`, "", "address.endpoint"},
		{push.WebPush, `{"endpoint":"ftp://x"}`, "", "address.endpoint"},
		{push.WebPush, `{"endpoint":"https://u:p@x/"}`, "", "address.endpoint"},
		{push.WebPush, `{"endpoint":"https://x/"}`, "", "address.keys"},
		{push.WebPush, `{"endpoint":"https://x/","keys":{"p256dh":"AA","auth":"AA"}}`, "", "address.keys.p256dh"},
		{push.WebPush, strings.Replace(subscription, `"auth":"+/8`, `"auth":"`, 1), "", "address.keys.auth"},
		{push.WebPush, strings.Replace(subscription, `"p256dh":"BG`, `"p256dh":"CG`, 1), "", "address.keys.p256dh"},
		{push.WebPush, strings.Replace(subscription, `"expirationTime"`, `"x"`, 1), "", "address.x"},
		{push.Telegram, `{"chat_id":-100123}`, `{"chat_id":-100123}`, ""},
		{push.Telegram, `{"chat_id":"42"}`, `{"chat_id":42}`, ""},
		{push.Telegram, `{"chat_id":"@news"}`, `{"chat_id":"@news"}`, ""},
		{push.Telegram, `{"chat_id":-1001,"message_thread_id":7}`, `{"chat_id":-1001,"message_thread_id":7}`, ""},
		{push.Telegram, `{"chat_id":1,"message_thread_id":0}`, "", "address.message_thread_id"},
		{push.Telegram, `{"chat_id":0}`, "", "address.chat_id"},
		{push.Telegram, `{"chat_id":"news"}`, "", "address.chat_id"},
		{push.Telegram, `{"chat_id":1,"text":"x"}`, "", "address.text"},
		{push.FCM, `{"token":"abc:def"}`, `{"token":"abc:def"}`, ""},
		{push.APNs, `{"token":""}`, "", "address.token"},
		{push.APNs, `{"token":"a\nb"}`, "", "address.token"},
		{push.Webhook, `{"url":"https://example.org/hook?a=b&c"}`, `{"url":"https://example.org/hook?a=b&c"}`, ""},
		{push.Webhook, `{"url":"https://example.org/#x"}`, "", "address.url"},
		{push.Live, ``, `{}`, ""},
		{push.Live, `{"x":1}`, "", "address.x"},
		{"", `{}`, "", "channel"},
		{"pigeon", `{}`, "", "channel"},
		{push.Webhook, ``, "", "address"},
		{push.Webhook, `[]`, "", "address"},
		{push.Webhook, `null`, "", "address"},
	} {
		got, err := NormalAddress(c.channel, json.RawMessage(c.in))
		if c.want != "" {
			if err != nil || string(got) != c.want {
				t.Errorf("%s %s: %s, %v", c.channel, c.in, got, err)
			}
			continue
		}
		wantField(t, err, c.field)
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *notification.FieldError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Errorf("error %v, want one of field %s", err, field)
	}
}

func TestURLsMustLeadOutside(t *testing.T) {
	for _, c := range []struct {
		channel push.Channel
		url     string
		ok      bool
	}{
		{push.WebPush, "https://push.example/x", true},
		{push.WebPush, "http://push.example/x", false},
		{push.WebPush, "https://127.0.0.1/x", false},
		{push.WebPush, "https://[::ffff:10.0.0.1]/x", false},
		{push.Webhook, "https://hook.example/", true},
		{push.Webhook, "https://169.254.169.254/latest", false},
		{push.Webhook, "http://hook.example/", false},
	} {
		e := Endpoint{Channel: c.channel, Address: json.RawMessage(`{"url":"` + c.url + `"}`)}
		field := "address.url"
		if c.channel == push.WebPush {
			e.Address, field = json.RawMessage(`{"endpoint":"`+c.url+`","keys":{}}`), "address.endpoint"
		}
		if err := CheckURLs(&e, urlguard.Targets{}.CheckURL); c.ok && err != nil {
			t.Errorf("%s: %v", c.url, err)
		} else if !c.ok {
			wantField(t, err, field)
		}
	}
	if err := CheckURLs(&Endpoint{Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`)}, urlguard.Targets{}.CheckURL); err != nil {
		t.Errorf("a chat: %v", err)
	}
}

// device is a token that is valid for both Apple and Google.
var device = strings.Repeat("ab", 32)

func TestOneAddressIsOneEndpoint(t *testing.T) {
	at := func(ch push.Channel, address, recipient string) [16]byte {
		e := Endpoint{Channel: ch, Address: json.RawMessage(address), Recipient: recipient}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		return AddressKey(&e)
	}
	other := strings.Replace(subscription, "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU", "BHzyexiNA09-ilI4AwS1GsPAiWnid_IbNaYLSPxHZpl4B3dVENuO0EApPZrGn3Qw27p9reY86YIpngS3nSJ4c9E", 1)
	switch {
	case at(push.WebPush, subscription, "") != at(push.WebPush, other, "ada"):
		t.Error("the keys of a subscription make it another")
	case at(push.Telegram, `{"chat_id":1}`, "") == at(push.Telegram, `{"chat_id":2}`, ""):
		t.Error("two chats are one")
	case at(push.Telegram, `{"chat_id":1}`, "") == at(push.Telegram, `{"chat_id":1,"message_thread_id":1}`, ""):
		t.Error("two topics of a chat are one address")
	case at(push.Telegram, `{"chat_id":"@News","message_thread_id":7}`, "") != at(push.Telegram, `{"chat_id":"@nEWS","message_thread_id":7}`, ""):
		t.Error("the name of a chat is compared with its case")
	case at(push.Telegram, `{"chat_id":"1"}`, "") != at(push.Telegram, `{"chat_id":1}`, ""):
		t.Error("a chat's number as a text is another")
	case at(push.FCM, `{"token":"`+device+`"}`, "") == at(push.APNs, `{"token":"`+device+`"}`, ""):
		t.Error("channels share addresses")
	case at(push.Live, ``, "ada") == at(push.Live, ``, "bob"):
		t.Error("two mailboxes are one")
	}
	if SameHolder(push.WebPush, json.RawMessage(subscription), json.RawMessage(other)) || !SameHolder(push.WebPush, json.RawMessage(subscription), json.RawMessage(subscription)) {
		t.Error("a subscription's keys are no proof")
	}
	if SameHolder(push.Telegram, json.RawMessage(`{"chat_id":1}`), json.RawMessage(`{"chat_id":1}`)) {
		t.Error("knowing a chat's number is a proof")
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for field, change := range map[string]func(*Endpoint){
		"recipient":       func(e *Endpoint) { e.Recipient = "a b" },
		"tags":            func(e *Endpoint) { e.Tags = []string{"a,b"} },
		"attributes":      func(e *Endpoint) { e.Attributes = Attributes{"1a": Text("")} },
		"attributes.note": func(e *Endpoint) { e.Attributes = Attributes{"note": Text(strings.Repeat("x", 513))} },
		"locale":          func(e *Endpoint) { e.Locale = "nb NO" },
		"timezone":        func(e *Endpoint) { e.Timezone = "Oslo" },
	} {
		e := Endpoint{Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`)}
		change(&e)
		wantField(t, e.Check(), field)
	}
	for _, tags := range [][]string{{""}, {" a"}, {"a\n"}, {strings.Repeat("x", 65)}, {"a|b"}, {"\xff"}, make([]string, 101)} {
		e := Endpoint{Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`), Tags: tags}
		wantField(t, e.Check(), "tags")
	}
	full := Endpoint{Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`)}
	for i := range MaxTags {
		full.Tags = append(full.Tags, fmt.Sprint("tag-", i))
	}
	if err := full.Check(); err != nil {
		t.Errorf("as many tags as there may be: %v", err)
	}
	full.Attributes = Attributes{"A.z-09_": Text(strings.Repeat("x", 512))}
	if err := full.Check(); err != nil {
		t.Errorf("all that names are made of: %v", err)
	}
	live := Endpoint{Channel: push.Live}
	wantField(t, live.Check(), "recipient")
	for _, zone := range []string{"../../etc/passwd", "Local", "/etc/localtime", "Europe"} {
		if checkTimezone(zone) == nil {
			t.Errorf("%s is a time zone", zone)
		}
	}
	e := Endpoint{Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`), Tags: []string{"b", "a", "b"}, Timezone: "Europe/Oslo", Locale: "nb-NO"}
	if err := e.Check(); err != nil || !reflect.DeepEqual(e.Tags, []string{"a", "b"}) {
		t.Errorf("%v, %v", e.Tags, err)
	}
}

func TestAudiencesAreChecked(t *testing.T) {
	for field, a := range map[string]Audience{
		"audience.channels[1]":   {Channels: []push.Channel{"webpush", "pigeon"}},
		"audience.recipients[0]": {Recipients: []string{"a b"}},
		"audience.recipients":    {Recipients: make([]string, MaxRecipients+1)},
		"audience.endpoints[1]":  {Endpoints: []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "x"}},
		"audience.endpoints":     {Endpoints: make([]string, MaxEndpoints+1)},
		"audience.tags_any":      {TagsAny: make([]string, maxAudienceTags+1)},
		"audience.tags_any[0]":   {TagsAny: []string{""}},
		"audience.tags_all[0]":   {TagsAll: []string{"a;b"}},
		"audience.where":         {Where: "x"},
	} {
		_, err := a.Select("audience")
		wantField(t, err, field)
	}
	s, err := (&Audience{Channels: []push.Channel{push.WebPush}, TagsAny: []string{"x", "vip"}, TagsAll: []string{"news"}, Recipients: []string{"ada"}, Where: "age > 1"}).Select("")
	if err != nil || !s.Match(subscriber()) {
		t.Fatalf("%v, %v", s, err)
	}
	for _, change := range []func(*Endpoint){
		func(e *Endpoint) { e.Channel = push.Telegram },
		func(e *Endpoint) { e.Tags = []string{"news"} },
		func(e *Endpoint) { e.Tags = []string{"vip"} },
		func(e *Endpoint) { e.Recipient = "bob" },
		func(e *Endpoint) { e.Attributes = nil },
	} {
		e := subscriber()
		if change(e); s.Match(e) {
			t.Errorf("%+v is in the audience", e)
		}
	}
}

func TestIDsCanBeWrittenInTwoWays(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	id := NewID(now)
	for _, text := range []string{id.String(), strings.ToLower(id.String()), id.UUID(), strings.ToUpper(id.UUID())} {
		if got, err := ParseID(text); err != nil || got != id {
			t.Errorf("%s is read as %s, %v", text, got, err)
		}
	}
	if later := NewID(now.Add(time.Millisecond)); later.String() <= id.String() {
		t.Error("ids do not grow with time")
	}
	if u := NewUUID().UUID(); u[14] != '4' || !strings.ContainsRune("89ab", rune(u[19])) {
		t.Errorf("%s is no UUID of version 4", u)
	}
	if got, err := ParseID("00000000-0000-0000-0000-00000000002a"); err != nil || got.String() != "0000000000000000000000001A" {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{"", "x", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0000000000000000000000000U", "000000000000-0000-0000-00000000002a-", strings.Repeat("é", 13)} {
		_, err := ParseID(text)
		wantField(t, err, "id")
	}
}

func TestManageTokensOpenTheirEndpointOnly(t *testing.T) {
	token, hash := NewToken()
	other, _ := NewToken()
	if !IsToken(token) || IsToken("gw_abc_def") || !hash.Opens(token) || hash.Opens(other) || (TokenHash{}).Opens("") {
		t.Error("the wrong token opens")
	}
}

func TestValuesKeepTheirKind(t *testing.T) {
	for text, want := range map[string]Value{
		`"Oslo"`: Text("Oslo"), `42`: Number(42), `-1.5`: Number(-1.5), `0`: Number(0), `9.5`: Number(9.5), `true`: Bool(true), `false`: Bool(false), `""`: Text(""),
	} {
		var v Value
		if err := json.Unmarshal([]byte(text), &v); err != nil || v != want {
			t.Errorf("%s: %v, %v", text, v, err)
		}
		if b, err := json.Marshal(v); err != nil || string(b) != text {
			t.Errorf("%s is written as %s, %v", text, b, err)
		}
	}
	for text, want := range map[string]Value{
		"Oslo": Text("Oslo"), "42": Number(42), "0150": Text("0150"), "+47": Text("+47"), "1e3": Text("1e3"), "true": Bool(true), "": Text(""),
		"NaN": Text("NaN"), "99999999999999999999": Text("99999999999999999999"), "-2.5": Number(-2.5), "Inf": Text("Inf"),
	} {
		if got := Guess(text); got != want || got.String() != text {
			t.Errorf("%s is guessed as %#v", text, got)
		}
	}
	a, gone, err := DecodeAttributes([]byte(`{"a":1,"b":null,"c":"x"}`))
	if err != nil || !reflect.DeepEqual(a, Attributes{"a": Number(1), "c": Text("x")}) || !reflect.DeepEqual(gone, []string{"b"}) {
		t.Errorf("%v %v %v", a, gone, err)
	}
	for text, field := range map[string]string{`[]`: "attributes", `null`: "attributes", `{"a":[]}`: "attributes.a", `{"a":1e999}`: "attributes.a"} {
		_, _, err := DecodeAttributes([]byte(text))
		wantField(t, err, field)
	}
}

func TestRenewalKeepsWhatIsNotGiven(t *testing.T) {
	now := time.Date(2030, 5, 1, 0, 0, 0, 0, time.UTC)
	e := subscriber()
	e.Address, e.Status, e.DisabledReason = json.RawMessage(subscription), Disabled, "gone"
	r := &Registration{Endpoint: Endpoint{Channel: push.WebPush, Address: json.RawMessage(subscription), Locale: "fr", Tags: []string{}}}
	if err := e.Renew(r, now); err != nil {
		t.Fatal(err)
	}
	if e.Status != Active || e.DisabledReason != "" || e.Locale != "fr" || len(e.Tags) != 0 || e.Timezone != "Europe/Oslo" || len(e.Attributes) == 0 || e.LastSeenAt != now {
		t.Errorf("%+v", e)
	}
	r.Endpoint.Address = json.RawMessage(strings.Replace(subscription, "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU", "BHzyexiNA09-ilI4AwS1GsPAiWnid_IbNaYLSPxHZpl4B3dVENuO0EApPZrGn3Qw27p9reY86YIpngS3nSJ4c9E", 1))
	if err := e.Renew(r, now); !errors.Is(err, ErrTaken) {
		t.Errorf("other keys: %v", err)
	}
	r.Trusted = true
	if err := e.Renew(r, now); err != nil {
		t.Errorf("a back end's other keys: %v", err)
	}
}
