package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
	"godwit.dev/godwit/test/blackbox"
)

// steps publishes a notification with steps, each "channel after".
func (w *world) steps(id, to string, more map[string]any, steps ...string) {
	w.Helper()
	list := []map[string]string{{"channel": "live"}}
	for _, s := range steps {
		channel, after, _ := strings.Cut(s, " ")
		list = append(list, map[string]string{"channel": channel, "after": after})
	}
	note := map[string]any{"to": to, "id": id, "title": "T", "escalate": list}
	for name, value := range more {
		note[name] = value
	}
	w.call(http.MethodPost, "/v1/notifications", note)
}

func (w *world) ackByHTTP(id, to string) {
	w.Helper()
	w.call(http.MethodPost, "/v1/acks?app=demo&recipient="+to, map[string]any{"ids": []string{id}})
}

// TestEachStepSaysWhatBecameOfIt: phones fail in every way, and nothing is sent for ended notifications. At the end no output of the server
// contains a device's token, an acknowledgement token or a credential.
func TestEachStepSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 8, 0)
	t.Run("cases", func(t *testing.T) { // the cases wait for providers concurrently
		for name, is := range map[string]func(*world, string){
			"gone": p.gone, "taken back from iPhones": p.takenBack, "refused": p.refused, "called off": p.calledOff, "expired": p.expired,
			"recalled": p.recalled, "erased": p.erased,
		} {
			w := *p.world
			i := caseOf[name]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w.T = t
				is(&w, rider(i))
			})
		}
	})
	p.saysNoSecret()
}

// caseOf assigns each case the number of its recipient, whose phones it uses.
var caseOf = map[string]int{"gone": 0, "taken back from iPhones": 1, "refused": 2, "called off": 3, "expired": 4, "recalled": 5, "erased": 6}

func (p *phones) gone(w *world, to string) {
	p.google.Behave(p.android[caseOf["gone"]], fcmserver.Behaviour{Row: fcmserver.Unregistered})
	w.steps("gone", to, nil, "fcm 22h", "webhook 23h")
	w.wantChannels("gone", to, "live stored", "fcm failed", "webhook waiting")
	w.steps("still-gone", to, nil, "fcm 22h", "webhook 23h") // the endpoint is disabled, so the next step does not wait for it
	w.wantChannels("still-gone", to, "live stored", "fcm skipped", "webhook accepted")
}

func (p *phones) takenBack(w *world, to string) {
	w.steps("back", to, nil, "apns 22h")
	w.wantChannels("back", to, "live stored", "apns accepted")
	w.ackByHTTP("back", to)
	w.wantChannels("back", to, "live acked", "apns withdraw_sent")
}

// refused: the provider refuses the credential. Waiting messages are sent once the channel is set up again, and other channels do not wait.
func (p *phones) refused(w *world, to string) {
	device := p.iphone[caseOf["refused"]]
	p.apple.Behave(device, apnsserver.Behaviour{Status: http.StatusForbidden, Reason: "InvalidProviderToken"})
	w.steps("refused", to, nil, "apns 0s", "webhook 1s")
	w.wantChannels("refused", to, "live stored", "apns held", "webhook accepted")
	if c := w.channel("refused", to, "apns"); !strings.Contains(c.Detail, "InvalidProviderToken") {
		w.Errorf("it is held because of %q", c.Detail)
	}
	p.apple.Behave(device, apnsserver.Accepting)
	w.call(http.MethodPut, "/v1/channels/apns", p.apnsSettings)
	w.wantChannels("refused", to, "live stored", "apns accepted", "webhook accepted")
}

// calledOff: an acknowledgement arrives between two attempts.
func (p *phones) calledOff(w *world, to string) {
	p.google.Behave(p.android[caseOf["called off"]], fcmserver.Behaviour{Row: fcmserver.Unavailable, RetryAfter: time.Second})
	w.steps("off", to, nil, "fcm 22h")
	blackbox.Eventually(w, "the first attempt", func() error {
		if c := w.channel("off", to, "fcm"); c.Detail == "" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	w.ackByHTTP("off", to)
	w.wantChannels("off", to, "live acked", "fcm suppressed")
	if got := p.google.Received(p.android[caseOf["called off"]]); len(got) != 0 {
		w.Errorf("%d messages came", len(got))
	}
}

// expired: the notification expires while it waits for another attempt.
func (p *phones) expired(w *world, to string) {
	p.google.Behave(p.android[caseOf["expired"]], fcmserver.Behaviour{Row: fcmserver.Unavailable, RetryAfter: time.Hour})
	w.steps("late", to, map[string]any{"ttl": "10m"}, "fcm 9m")
	w.wantChannels("late", to, "live stored", "fcm failed")
	if c := w.channel("late", to, "fcm"); !strings.Contains(c.Detail, "no time is left") {
		w.Errorf("it failed because of %q", c.Detail)
	}
}

// recalled: one notification is recalled before its second step, and one before its scheduled time.
func (p *phones) recalled(w *world, to string) {
	began := time.Now()
	w.steps("undone", to, nil, "webhook 0s", "webhook 1s")
	p.hooks.wait(w.T, message, "undone")
	w.call(http.MethodDelete, "/v1/notifications/undone", nil)
	slow := time.Since(began) >= time.Second // the machine was too slow: the second step may have begun
	w.steps("later", to, map[string]any{"send_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "webhook 1s")
	w.wantChannels("later", to, "live scheduled", "webhook waiting")
	w.call(http.MethodDelete, "/v1/notifications/later", nil)
	w.wantChannels("later", to, "live recalled")
	w.steps("old", to, map[string]any{"collapse_key": "k"}, "webhook 22h", "webhook 23h")
	p.hooks.wait(w.T, message, "old")
	w.steps("new", to, map[string]any{"collapse_key": "k"}, "webhook 0s", "webhook 1s")
	w.wantChannels("new", to, "live stored", "webhook accepted", "webhook accepted") // later than the second step of the recalled notification
	w.wantChannels("old", to, "live replaced", "webhook withdrawn")
	if slow {
		return
	}
	w.wantChannels("undone", to, "live recalled", "webhook withdrawn")
	if n := len(p.hooks.got(message, "undone")); n != 1 {
		w.Errorf("%d messages came of what was recalled after the first", n)
	}
}

func (p *phones) erased(w *world, to string) {
	began := time.Now()
	w.steps("erased", to, nil, "webhook 0s", "webhook 1s")
	p.hooks.wait(w.T, message, "erased")
	w.call(http.MethodDelete, "/v1/recipients/"+to, nil)
	slow := time.Since(began) >= time.Second
	other := rider(7)
	w.steps("control", other, nil, "webhook 0s", "webhook 1s")
	w.wantChannels("control", other, "live stored", "webhook accepted", "webhook accepted")
	if n := len(p.hooks.got(message, "erased")); n != 1 && !slow {
		w.Errorf("%d messages came for somebody who was erased after the first", n)
	}
}

// channel returns the state of a copy's channel.
func (w *world) channel(id, to, channel string) channelStanding {
	w.Helper()
	var s standing
	if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil).JSON(&s); err != nil {
		w.Fatal(err)
	}
	return s.of(channel)
}

// saysNoSecret searches everything that is written for people, or for programs other than the providers.
func (p *phones) saysNoSecret() {
	p.Helper()
	tokens := 0
	secrets := map[string]string{"the key for APNs": strings.Split(p.apnsSettings["private_key"].(string), "\n")[1]}
	var account struct {
		Key string `json:"private_key"`
	}
	if err := json.Unmarshal(p.google.Account(), &account); err != nil {
		p.Fatal(err)
	}
	secrets["the service account's key"] = strings.Split(account.Key, "\n")[1]
	for i := range p.android {
		secrets[fmt.Sprint("the token of Android device ", i)], secrets[fmt.Sprint("the token of iPhone ", i)] = p.android[i], p.iphone[i]
		for _, m := range p.google.Received(p.android[i]) {
			secrets["a token to acknowledge with, to "+p.android[i]] = m.Data["godwit_ack"]
		}
		for _, m := range p.apple.Received(p.iphone[i]) {
			var body struct {
				Ack string `json:"godwit_ack"`
			}
			_ = json.Unmarshal(m.Payload, &body) // the service has reported any invalid JSON
			if body.Ack != "" {                  // a withdrawal has none
				secrets["a token to acknowledge with, of "+m.ID], tokens = body.Ack, tokens+1
			}
			secrets["our token at APNs"] = strings.TrimPrefix(m.Authorization, "bearer ")
		}
	}
	if tokens == 0 {
		p.Error("no token came, so nothing is known of where it is written")
	}
	said := map[string]string{"the log": p.server.Log()}
	for _, path := range []string{"/metrics", "/v1/stats", "/v1/channels", "/v1/notifications/gone?to=" + rider(0), "/v1/notifications/refused?to=" + rider(2)} {
		said[path] = string(p.call(http.MethodGet, path, nil).Body)
	}
	said["the events"] = p.events()
	for where, text := range said {
		if len(text) == 0 {
			p.Errorf("%s is empty", where)
		}
		for what, secret := range secrets {
			if secret != "" && strings.Contains(text, secret) {
				p.Errorf("%s holds %s", where, what)
			}
		}
	}
}

// events returns the feed as written, from its beginning to a notification that is published now.
func (p *phones) events() string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), blackbox.Patience)
	defer cancel()
	p.call(http.MethodPost, "/v1/notifications", map[string]any{"to": rider(7), "id": "the-last", "title": "T"})
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.URL("/v1/events?since=0"), nil)
	if err != nil {
		p.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer dev")
	resp, err := p.api.HTTP.Do(q)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	part := make([]byte, 4096)
	for !strings.Contains(b.String(), `"the-last"`) {
		n, err := resp.Body.Read(part)
		b.Write(part[:n])
		if err != nil {
			p.Fatal(err)
		}
	}
	return b.String()
}

// TestAnAckThatRacesWithASendWithdrawsIt: whatever the moment of the acknowledgement, messages already sent to a phone are withdrawn.
func TestAnAckThatRacesWithASendWithdrawsIt(t *testing.T) {
	t.Parallel()
	const rides = 40
	p := beginPhones(t, inFiles(t), 4, 20*time.Millisecond)
	var wg sync.WaitGroup
	for i := range rides {
		id, to := fmt.Sprint("race-", i), rider(i%4)
		p.steps(id, to, nil, "fcm 22h") // starts immediately, and is answered 20 ms later
		wg.Go(func() {
			pause := time.NewTimer(time.Duration(i) * time.Millisecond) // so that acks arrive before, during and after the send
			<-pause.C
			if a, err := p.api.Do(t.Context(), http.MethodPost, "/v1/acks?app=demo&recipient="+to, map[string]any{"ids": []string{id}}); err != nil || a.Status != http.StatusOK {
				t.Errorf("ack: %v, %v", a, err)
			}
		})
	}
	wg.Wait()
	for i := range rides {
		id, to := fmt.Sprint("race-", i), rider(i%4)
		blackbox.Eventually(t, "the end of "+id, func() error {
			if c := p.channel(id, to, "fcm"); c.Status != "" && c.Status != "suppressed" && c.Status != "withdrawn" {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
		c, got := p.channel(id, to, "fcm"), p.taken()[[3]string{"fcm", to, id}]
		if shown := len(got) > 0 && got[len(got)-1] != ""; shown || c.Status == "suppressed" && len(got) > 0 {
			t.Errorf("%s is %q and its phone got %q", id, c.Status, got)
		}
	}
}
