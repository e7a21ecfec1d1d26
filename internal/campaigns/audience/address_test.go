package audience_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	digits = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
	// The generator of P-256, and a variant with another last byte, which is not on the curve.
	onCurve  = "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"
	offCurve = "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfY"
)

func TestAddressesAreBroughtIntoOneForm(t *testing.T) {
	apns := `{"token":"` + digits + `"}`
	spaced := "<" + digits[:8]
	for i := 8; i < len(digits); i += 8 {
		spaced += " " + digits[i:i+8]
	}
	sub := func(p256dh, auth string) string {
		return `{"endpoint":"https://push.example/x","keys":{"p256dh":"` + p256dh + `","auth":"` + auth + `"}}`
	}
	for _, c := range []struct {
		channel  push.Channel
		in, want string
	}{
		{push.APNs, apns, apns},
		{push.APNs, strings.ToUpper(digits), apns},
		{push.APNs, " " + digits + "\\n", apns},
		{push.APNs, spaced + ">", apns},
		{push.FCM, " dGVz:APA91b_x-Y.z ", `{"token":"dGVz:APA91b_x-Y.z"}`},
		{push.Telegram, `{"chat_id":"42"}`, `{"chat_id":42}`},
		{push.Telegram, `{"chat_id":" -1001 "}`, `{"chat_id":-1001}`},
		{push.Telegram, `{"chat_id":"@channel"}`, `{"chat_id":"@channel"}`},
		{push.WebPush, sub(onCurve, "AAAAAAAAAAAAAAAAAAAAAA"), sub(onCurve, "AAAAAAAAAAAAAAAAAAAAAA")},
		{push.WebPush, sub(onCurve+"=", "AAAAAAAAAAAAAAAAAAAAAA=="), sub(onCurve, "AAAAAAAAAAAAAAAAAAAAAA")},
		{push.WebPush, sub(strings.NewReplacer("-", "+", "_", "/").Replace(onCurve), "AAAAAAAAAAAAAAAAAAAAAA"), sub(onCurve, "AAAAAAAAAAAAAAAAAAAAAA")},
	} {
		in := c.in
		if !strings.HasPrefix(in, "{") {
			in = `{"token":"` + in + `"}`
		}
		got, err := audience.NormalAddress(c.channel, json.RawMessage(in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s %s: %s, %v; want %s", c.channel, in, got, err, c.want)
		}
	}
}

func TestAddressesThatCannotBeAreRefused(t *testing.T) {
	for channel, list := range map[push.Channel][]string{
		push.APNs: {
			`{"token":""}`, `{"token":"abc"}`, `{"token":"` + digits[1:] + `"}`, `{"token":"` + digits + `0"}`, `{"token":"` + strings.Repeat("ab", 129) + `"}`,
			`{"token":"fcm-token:APA91bF"}`, `{"token":"<` + digits + `"}`, `{"token":"` + digits[:32] + ` ` + digits[32:] + `"}`, `{"token":7}`, `{"token":"０` + digits[3:] + `"}`,
		},
		push.FCM:      {`{"token":""}`, `{"token":"  "}`, `{"token":"a b"}`, `{"token":"a\nb"}`, `{"token":"{\"token\":1}"}`, `{"token":"ключ"}`, `{"token":"` + strings.Repeat("a", 4097) + `"}`},
		push.Telegram: {`{"chat_id":0}`, `{"chat_id":1.5}`, `{"chat_id":"ann"}`, `{"chat_id":"@"}`, `{"chat_id":"@a b"}`, `{"chat_id":true}`, `{"chat_id":99999999999999999999}`},
		push.WebPush: {
			`{"endpoint":"https://push.example/x","keys":{"p256dh":"` + offCurve + `","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`,
			`{"endpoint":"https://push.example/x","keys":{"p256dh":"` + onCurve + `","auth":"AAAAAAAAAAAAAAAAAAAA"}}`,
			`{"endpoint":"https://push.example/x","keys":{"p256dh":"AAAAAAAAAAAAAAAAAAAAAA","auth":"` + onCurve + `"}}`, // the wrong way around
			`{"endpoint":"https://push.example/x","keys":{"p256dh":"[object Object]","auth":"[object Object]"}}`,
			`{"endpoint":"https://push.example/x","keys":{"p256dh":"BAAA","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`,
		},
	} {
		for _, in := range list {
			_, err := audience.NormalAddress(channel, json.RawMessage(in))
			var field *notification.FieldError
			if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "address") {
				t.Errorf("%s %.80s: %v", channel, in, err)
			}
		}
	}
}

func TestAnotherOwnerInheritsNothing(t *testing.T) {
	now := time.Now()
	_, old := audience.NewToken()
	_, fresh := audience.NewToken()
	for _, ch := range []push.Channel{push.WebPush, push.FCM, push.APNs, push.Telegram, push.Webhook} {
		for _, trusted := range []bool{false, true} {
			was := audience.Endpoint{
				Channel: ch, Recipient: "ann", Address: json.RawMessage(`{}`), Tags: []string{"vip"}, Attributes: audience.Attributes{"debt": audience.Number(7)},
				Locale: "nb", Timezone: "Europe/Oslo", Status: audience.Active, Token: old,
			}
			e := was
			err := e.Renew(&audience.Registration{Trusted: trusted, Endpoint: audience.Endpoint{Channel: ch, Recipient: "bob", Address: json.RawMessage(`{}`), Token: fresh}}, now)
			if !trusted && (ch == push.Telegram || ch == push.Webhook) {
				if !errors.Is(err, audience.ErrTaken) {
					t.Errorf("%s: a client takes an address over that anybody may know: %v", ch, err)
				}
				continue
			}
			if err != nil || e.Recipient != "bob" || e.Tags != nil || e.Attributes != nil || e.Locale != "" || e.Timezone != "" || e.Token != fresh {
				t.Errorf("%s, trusted %t: %v, %+v", ch, trusted, err, e)
			}
			e = was
			if err := e.Renew(&audience.Registration{Trusted: trusted, Endpoint: audience.Endpoint{Channel: ch, Recipient: "ann", Address: json.RawMessage(`{}`)}}, now); err != nil || len(e.Tags) != 1 || e.Locale != "nb" {
				t.Errorf("%s, trusted %t: the owner lost what was said: %v, %+v", ch, trusted, err, e)
			}
		}
	}
}

func TestNewOwnerOfEndpointInheritsNothing(t *testing.T) {
	_, token := audience.NewToken()
	for to, kept := range map[string]bool{"bob": false, "": true, "ann": true} {
		e := audience.Endpoint{
			Channel: push.FCM, Recipient: "ann", Tags: []string{"vip"}, Attributes: audience.Attributes{"debt": audience.Number(7)}, Locale: "nb", Timezone: "Europe/Oslo", Token: token,
		}
		e.GiveTo(to)
		e.Timezone = "Asia/Tokyo"
		if e.Recipient != to || e.Timezone != "Asia/Tokyo" || (e.Tags != nil) != kept || (e.Attributes != nil) != kept || (e.Locale != "") != kept || (e.Token == token) != (to == "ann") {
			t.Errorf("ann's endpoint given to %q: %+v", to, e)
		}
	}
	e := audience.Endpoint{Channel: push.WebPush, Tags: []string{"news"}, Token: token}
	if e.GiveTo("ann"); len(e.Tags) != 1 || e.Token != token {
		t.Errorf("a visitor who signed in lost what was said: %+v", e)
	}
}

func TestAVisitorWithAPhonesTokenIsNotItsRecipient(t *testing.T) {
	_, old := audience.NewToken()
	_, fresh := audience.NewToken()
	for ch, want := range map[push.Channel]audience.TokenHash{push.FCM: old, push.APNs: old, push.WebPush: fresh} {
		e := audience.Endpoint{Channel: ch, Recipient: "ann", Address: json.RawMessage(`{}`), Token: old}
		if err := e.Renew(&audience.Registration{Endpoint: audience.Endpoint{Channel: ch, Address: json.RawMessage(`{}`), Token: fresh}}, time.Now()); err != nil || e.Token != want || e.Recipient != "ann" {
			t.Errorf("%s: %v, recipient %s, has the visitor's token %t", ch, err, e.Recipient, e.Token == fresh)
		}
	}
}
