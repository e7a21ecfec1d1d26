package storetest

import (
	"encoding/json"
	"errors"
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

func foundByAddress(e *endpointEnv) {
	made := e.register(App, chat(1), chat(2))
	for _, want := range made {
		got, err := e.s.EndpointAt(e.Context(), App, push.Telegram, want.Address)
		if err != nil || got.ID != want.ID {
			e.Errorf("at %s is %s, %v; want %s", want.Address, got.ID, err, want.ID)
		}
	}
	for what, f := range map[string]func() (audience.Endpoint, error){
		"another address": func() (audience.Endpoint, error) {
			return e.s.EndpointAt(e.Context(), App, push.Telegram, json.RawMessage(`{"chat_id":3}`))
		},
		"another app": func() (audience.Endpoint, error) {
			return e.s.EndpointAt(e.Context(), "other", push.Telegram, made[0].Address)
		},
	} {
		if got, err := f(); !errors.Is(err, audience.ErrNotFound) {
			e.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func namesAreListed(e *endpointEnv) {
	level, _, err := audience.DecodeAttributes([]byte(`{"level":3}`))
	e.check(err)
	e.register(App, chat(1, tags("b", "a")), chat(2, tags("b"), attributes(level)))
	theirs, _, err := audience.DecodeAttributes([]byte(`{"theirs":3}`))
	e.check(err)
	e.register("other", chat(3, tags("c"), attributes(theirs)))
	tagNames, attributeNames, err := e.s.Names(e.Context(), App, 100)
	e.check(err)
	slices.Sort(tagNames)
	if !slices.Equal(tagNames, []string{"a", "b"}) || !slices.Equal(attributeNames, []string{"level"}) {
		e.Errorf("tags %v, attributes %v", tagNames, attributeNames)
	}
}
