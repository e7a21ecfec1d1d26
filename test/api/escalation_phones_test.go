package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
	"godwit.dev/godwit/test/blackbox"
)

// phones is a server with stand-ins for FCM and APNs and a receiver of webhooks. Every recipient has an endpoint at each.
type phones struct {
	*world
	google  *fcmserver.Server
	apple   *apnsserver.Server
	hooks   *receiver
	android []string // tokens by recipient
	iphone  []string

	apnsSettings map[string]any
}

func rider(i int) string { return fmt.Sprint("rider-", i) }

// beginPhones starts the server. FCM answers later than the others by later, so that sends are under way then.
func beginPhones(t *testing.T, k kept, recipients int, later time.Duration) *phones {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	p := &phones{
		google: fcmserver.Start(fcmserver.Options{}), hooks: receive(t),
		apple: apnsserver.Start(apnsserver.Options{
			Public: &private.PublicKey, KeyID: "ABC123DEFG", TeamID: "DEF123GHIJ", Topic: "org.example.rides",
			Rest: time.Nanosecond, // a restarted server creates another token
		}),
	}
	t.Cleanup(p.google.Close)
	t.Cleanup(p.apple.Close)
	trusted := filepath.Join(t.TempDir(), "trusted.pem")
	if err := os.WriteFile(trusted, append(p.google.CertPEM(), p.apple.CertPEM()...), 0o600); err != nil {
		t.Fatal(err)
	}
	p.register(t, k, recipients, later)
	s := blackbox.Start(t, append(k.serve(), blackbox.Env("SSL_CERT_FILE="+trusted))...)
	p.world = &world{T: t, server: s, api: s.API()}
	p.call(http.MethodPut, "/v1/channels/webhook", map[string]any{})
	p.call(http.MethodPut, "/v1/channels/fcm", map[string]any{"service_account": string(p.google.Account()), "base_url": p.google.URL})
	p.apnsSettings = map[string]any{
		"private_key": key, "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ", "topic": "org.example.rides", "base_url": p.apple.URL,
	}
	p.call(http.MethodPut, "/v1/channels/apns", p.apnsSettings)
	return p
}

// register writes the endpoints before the server starts.
func (p *phones) register(t *testing.T, k kept, recipients int, later time.Duration) {
	t.Helper()
	var regs []audience.Registration
	add := func(i int, ch push.Channel, address json.RawMessage) {
		e := audience.Endpoint{ID: audience.NewID(time.Now()), App: "demo", Channel: ch, Recipient: rider(i), Address: address}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		regs = append(regs, audience.Registration{Endpoint: e, Trusted: true})
	}
	for i := range recipients {
		token, address := p.google.Device(fcmserver.Behaviour{Delay: later})
		p.android = append(p.android, token)
		add(i, push.FCM, address)
		token, address = p.apple.Register(apnsserver.Accepting)
		p.iphone = append(p.iphone, token)
		add(i, push.APNs, address)
		address, _ = json.Marshal(map[string]string{"url": p.hooks.URL + "/" + rider(i)}) // a text
		add(i, push.Webhook, address)
	}
	store := k.endpoints(t)
	defer store.Close()
	done, err := store.Register(context.WithoutCancel(t.Context()), "demo", regs)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
	}
}

// came lists the messages that a channel got for a copy, in order, by names that distinguish a second message from a repeated one; "" is a
// withdrawal.
type came []string

func (c came) messages() (n int) {
	for _, name := range c {
		if name != "" {
			n++
		}
	}
	return n
}

func (c came) withdrawn() bool { return len(c) > c.messages() }

// taken has all received messages, by channel, recipient and notification.
type taken map[[3]string]came

func (p *phones) taken() taken {
	all := make(taken)
	add := func(channel, recipient, note, name string) {
		key := [3]string{channel, recipient, note}
		all[key] = append(all[key], name)
	}
	for i := range p.android {
		for _, m := range p.google.Received(p.android[i]) {
			if note := m.Data["godwit_recall"]; note != "" {
				add("fcm", rider(i), note, "")
			} else {
				add("fcm", rider(i), m.Data["godwit_id"], m.APNs.Headers["apns-collapse-id"])
			}
		}
		for _, m := range p.apple.Received(p.iphone[i]) {
			var body struct {
				ID     string   `json:"godwit_id"`
				Recall []string `json:"godwit_recall"`
			}
			if err := json.Unmarshal(m.Payload, &body); err != nil {
				p.Fatal(err)
			}
			if len(body.Recall) > 0 {
				add("apns", rider(i), body.Recall[0], "")
			} else {
				add("apns", rider(i), body.ID, m.ID+" "+m.Collapse)
			}
		}
	}
	for _, post := range p.hooks.log() {
		if post.kind == withdraw {
			add("webhook", post.to, post.note, "")
		} else {
			add("webhook", post.to, post.note, post.id)
		}
	}
	return all
}
