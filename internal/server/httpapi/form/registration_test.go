package form

import (
	"slices"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
)

func TestNewOwnerKeepsWhatTheSameChangeSays(t *testing.T) {
	for _, body := range []string{`{"recipient":"bob","tags":["new"],"locale":"de"}`, `{"tags":["new"],"locale":"de","recipient":"bob"}`} {
		change, err := Change([]byte(body), &endpoint.Holder{BackEnd: true})
		if err != nil {
			t.Fatal(err)
		}
		e := audience.Endpoint{Recipient: "ann", Tags: []string{"old"}, Locale: "nb", Timezone: "Europe/Oslo"}
		change(&e)
		if e.Recipient != "bob" || !slices.Equal(e.Tags, []string{"new"}) || e.Locale != "de" || e.Timezone != "" {
			t.Errorf("%s makes ann's endpoint %+v", body, e)
		}
	}
}
