package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/test/blackbox"
)

// iconOf returns what a rider's phones were told about the number on the icon: of messages that show something, and of those that do not.
func (p *phones) iconOf(i int) (apple, google []string) {
	for _, m := range p.apple.Received(p.iphone[i]) {
		var got struct {
			APS struct {
				Alert     *struct{ Title string }
				Badge     *int
				Available int `json:"content-available"`
			}
			Count *int `json:"godwit_badge"`
		}
		if err := json.Unmarshal(m.Payload, &got); err != nil {
			p.Fatal(err)
		}
		switch {
		case got.APS.Badge == nil:
			apple = append(apple, "none")
		case got.APS.Alert != nil:
			apple = append(apple, fmt.Sprint("with ", got.APS.Alert.Title, " ", *got.APS.Badge))
		default:
			apple = append(apple, fmt.Sprint("alone ", *got.APS.Badge, " ", *got.Count, " ", m.PushType, " ", m.Priority, " ", got.APS.Available))
		}
	}
	for _, m := range p.google.Received(p.android[i]) {
		name := "alone"
		if title := m.Data["title"]; title != "" {
			name = "with " + title
		}
		number := m.Data["godwit_badge"]
		if aps := m.APNs.Payload.APS; number != "" && (aps.Badge == nil || fmt.Sprint(*aps.Badge) != number) {
			p.Errorf("phones of Apple behind FCM are told %v, others %s", aps.Badge, number)
		}
		google = append(google, name+" "+number)
	}
	return apple, google
}

// wantIcon waits for what a rider's phones are told.
func (p *phones) wantIcon(what string, i int, apple, google []string) {
	p.Helper()
	blackbox.Eventually(p.T, what, func() error {
		a, g := p.iconOf(i)
		if !slices.Equal(a, apple) || !slices.Equal(g, google) {
			return fmt.Errorf("phones were told %q and %q, want %q and %q", a, g, apple, google)
		}
		return nil
	})
}

func TestIconsShowWhatIsUnseen(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 2, 0)
	publish := func(id string, i int) {
		t.Helper()
		p.call(http.MethodPost, "/v1/notifications", map[string]any{
			"to": rider(i), "id": id, "title": id, "inbox": true, "escalate": []map[string]any{{"channel": "fcm", "after": "1s"}, {"channel": "apns", "after": "1s"}},
		})
	}
	publish("off", 0)
	p.wantIcon("a message without the setting", 0, []string{"none"}, []string{"with off "})
	for _, channel := range []string{"fcm", "apns"} {
		p.call(http.MethodPut, "/v1/channels/"+channel, map[string]any{"badge": true})
	}
	publish("second", 0)
	apple, google := []string{"none", "with second 2"}, []string{"with off ", "with second 2"}
	p.wantIcon("a message with the number", 0, apple, google)
	p.call(http.MethodPost, "/v1/inbox/off?to="+rider(0), map[string]any{"read": true})
	p.call(http.MethodPost, "/v1/inbox/seen?to="+rider(0), nil)
	apple, google = append(apple, "alone 0 0 alert 5 1"), append(google, "alone 0")
	p.wantIcon("the inbox was opened elsewhere", 0, apple, google)
	p.call(http.MethodPost, "/v1/inbox/second?to="+rider(0), map[string]any{"read": true}) // it was seen: the number stays
	publish("third", 0)
	apple, google = append(apple, "with third 1"), append(google, "with third 1")
	p.wantIcon("another message", 0, apple, google)
	p.call(http.MethodDelete, "/v1/notifications/third?to="+rider(0), nil)
	// The recall takes the message from the screen, and the number from the icon.
	blackbox.Eventually(t, "the recall", func() error {
		a, g := p.iconOf(0)
		if !slices.Contains(a[len(apple):], "alone 0 0 alert 5 1") || !slices.Contains(g[len(google):], "alone 0") {
			return fmt.Errorf("phones were told %q and %q", a, g)
		}
		return nil
	})
	if a, g := p.iconOf(1); len(a)+len(g) > 0 {
		t.Errorf("phones of somebody else were told %q and %q", a, g)
	}
}

func TestEndedPhonesAreToldNoNumber(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 1, 0)
	p.call(http.MethodPut, "/v1/channels/apns", map[string]any{"badge": true})
	p.apple.Behave(p.iphone[0], apnsserver.Behaviour{Status: http.StatusGone, Reason: "Unregistered", Since: time.Now().Add(time.Hour)})
	p.call(http.MethodPost, "/v1/notifications", map[string]any{"to": rider(0), "id": "a", "title": "A", "inbox": true})
	p.call(http.MethodPost, "/v1/inbox/seen?to="+rider(0), nil)
	blackbox.Eventually(t, "the endpoint has ended", func() error {
		var list struct {
			Items []struct{ Channel, Status string }
		}
		if err := p.call(http.MethodGet, "/v1/endpoints?recipient="+rider(0), nil).JSON(&list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Channel == "apns" && e.Status == "disabled" {
				return nil
			}
		}
		return fmt.Errorf("endpoints %+v", list.Items)
	})
}
