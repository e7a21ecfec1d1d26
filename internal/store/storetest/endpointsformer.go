package storetest

import (
	"encoding/json"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// formerSpelling checks that a token in lower case finds the endpoint that an earlier version stored in upper case.
func formerSpelling(e *endpointEnv) {
	ctx := e.Context()
	small := strings.Repeat("0a1b2c3d", 8)
	at := func(token, recipient string) audience.Registration {
		return audience.Registration{Trusted: true, Endpoint: audience.Endpoint{Channel: push.APNs, Recipient: recipient, Address: json.RawMessage(`{"token":"` + token + `"}`)}}
	}
	register := func(r audience.Registration) audience.Registered {
		e.Helper()
		done, err := e.s.Register(ctx, "shop", []audience.Registration{r})
		if err != nil || done[0].Err != nil {
			e.Fatal(err, done)
		}
		return done[0]
	}
	was := register(at(strings.ToUpper(small), "ann"))
	found, err := e.s.EndpointAt(ctx, "shop", push.APNs, json.RawMessage(`{"token":"`+small+`"}`))
	if err != nil || found.ID != was.Endpoint.ID {
		e.Errorf("a token in capitals is found as %s, %v", found.ID, err)
	}
	if _, err := e.s.UpdateEndpoint(ctx, "shop", was.Endpoint.ID, true, func(p *audience.Endpoint) error { p.Locale = "nb"; return nil }); err != nil {
		e.Errorf("it cannot be changed: %v", err)
	}
	now := register(at(small, "ann"))
	if now.Created || now.Endpoint.ID != was.Endpoint.ID || string(now.Endpoint.Address) != `{"token":"`+small+`"}` {
		e.Errorf("registered again it is %+v", now)
	}
	// Two endpoints of one device, created by an earlier version, become one.
	other := strings.Repeat("0a1b2c3e", 8)
	capitals, low := register(at(strings.ToUpper(other), "bob")), register(at("zz", "bob"))
	if err := e.s.MoveEndpoint(ctx, low.Endpoint.Number, json.RawMessage(`{"token":"`+other+`"}`)); err != nil {
		e.Fatal(err)
	}
	if again := register(at(other, "bob")); again.Endpoint.ID != low.Endpoint.ID {
		e.Errorf("the one that is spelled as today is %s, not %s", low.Endpoint.ID, again.Endpoint.ID)
	}
	if list, err := e.s.EndpointsOf(ctx, "shop", "bob"); err != nil || len(list) != 1 || list[0].ID == capitals.Endpoint.ID {
		e.Errorf("bob has %d endpoints of one device, %v", len(list), err)
	}
}

// chatNames checks that a chat's public name is one endpoint in every spelling.
func chatNames(e *endpointEnv) {
	ctx := e.Context()
	at := func(name string) audience.Registered {
		e.Helper()
		done, err := e.s.Register(ctx, "shop", []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
			Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":"` + name + `"}`),
		}}})
		if err != nil || done[0].Err != nil {
			e.Fatal(err, done)
		}
		return done[0]
	}
	first := at("@News_Oslo")
	for _, name := range []string{"@news_oslo", "@NEWS_OSLO", "@News_Oslo"} {
		if again := at(name); again.Created || again.Endpoint.ID != first.Endpoint.ID {
			e.Errorf("%s is another endpoint", name)
		}
		if found, err := e.s.EndpointAt(ctx, "shop", push.Telegram, json.RawMessage(`{"chat_id":"`+name+`"}`)); err != nil || found.ID != first.Endpoint.ID {
			e.Errorf("%s is found as %s, %v", name, found.ID, err)
		}
	}
	if other := at("@news_bergen"); !other.Created {
		e.Error("another chat is the same endpoint")
	}
}
