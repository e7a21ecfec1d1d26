package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// publish measures the same load without and with a step in turn, so that other work of the machine affects both alike.
func (e *Escalation) publish(ctx context.Context, r *report.Result, _ int) error {
	for pair := range e.Pairs {
		var rate, cpu, database [2]float64
		for turn := range 2 {
			steps := (turn + pair) % 2 // who goes first alternates
			l := Load{
				Common: e.Common, Servers: 1, Clients: 1000, Publishers: 64, Size: 200, Transport: loadgen.WebSocketJSON, Batch: 1,
				Warmup: 2 * time.Second, For: e.For, Steps: steps,
			}
			l.Testbed.Say("pair %d: publishing with %d steps", pair+1, steps)
			o, err := l.measure(ctx, pair)
			if err != nil {
				return err
			}
			group := []string{"publish without steps", "publish with one step"}[steps]
			rate[steps] = float64(o.Published.Accepted) / o.Published.Seconds
			cpu[steps] = meter.CPU(o.Server) / float64(max(o.Counts.Received, 1)) * 1e6
			r.Add(group, "publishes accepted, delivered and acknowledged", "/s", rate[steps])
			r.Add(group, "server CPU each", "µs", cpu[steps])
			lost, _ := arrived(o.Expected, o.Counts.Received)
			r.Add(group, "deliveries missing", "", float64(lost))
			if o.Postgres != nil {
				database[steps] = o.Postgres.CPU.Seconds() / float64(max(o.Counts.Received, 1)) * 1e6
				r.Add(group, "PostgreSQL CPU each", "µs", database[steps])
			}
		}
		r.Add("publish with one step", "rate to that without", "×", rate[1]/rate[0])
		r.Add("publish with one step", "server CPU to that without", "×", cpu[1]/cpu[0])
		if database[0] > 0 {
			r.Add("publish with one step", "PostgreSQL CPU to that without", "×", database[1]/database[0])
		}
	}
	return nil
}

// armedRecipients is the number of recipients with pending notifications.
const armedRecipients = 1000

// start measures how long a server takes to be ready with pending notifications, without and with a step for each.
func (e *Escalation) start(ctx context.Context, r *report.Result, _ int) error {
	if e.Armed == 0 || e.Pairs == 0 {
		return nil
	}
	var servers [2]*testbed.Server
	for steps := range servers {
		site, err := e.Testbed.NewSite(ctx, 1)
		if err != nil {
			return err
		}
		defer site.Close()
		servers[steps] = site.Servers[0]
		if err := e.fillArmed(ctx, site, steps); err != nil {
			return err
		}
		if err := servers[steps].Restart(ctx, nil); err != nil { // the first start reads the log and is not measured
			return err
		}
	}
	group := "start with " + report.Format(float64(e.Armed)) + " pending"
	for pair := range e.Pairs {
		var took [2]float64
		for turn := range 2 {
			steps := (turn + pair) % 2
			begun := time.Now()
			if err := servers[steps].Restart(ctx, nil); err != nil {
				return err
			}
			took[steps] = time.Since(begun).Seconds()
			r.Add(group, []string{"without steps", "with a step each"}[steps], "s", took[steps])
		}
		r.Add(group, "longer with steps by", "s", took[1]-took[0])
	}
	return nil
}

// fillArmed publishes to recipients who are online and do not acknowledge: for an offline recipient, the first step would be due at once.
func (e *Escalation) fillArmed(ctx context.Context, site *testbed.Site, steps int) error {
	l := Load{Common: e.Common, Steps: steps}
	if err := l.setUpSteps(ctx, site); err != nil {
		return err
	}
	const names = "armed-"
	count := min(armedRecipients, e.Armed)
	_, err := site.Connect(ctx, loadgen.SubscriberConfig{
		Transport: loadgen.WebSocketJSON, Prefix: names, Count: count, Concurrency: opening, Heartbeat: heartbeat, NoAcks: true,
	}, 1)
	if err != nil {
		return err
	}
	body := map[string]any{"data": map[string]string{"ride": "9f3"}, "ttl": "12h"}
	if steps > 0 {
		body["escalate"] = []step{{Channel: "live"}, {Channel: loadgen.StepChannel, After: "10h"}}
	}
	var to []string
	for n := range count {
		to = append(to, loadgen.RecipientName(names, n))
	}
	for left := e.Armed; left > 0; left -= len(to) {
		to = to[:min(left, len(to))]
		body["to"] = to
		if err := site.Servers[0].Call(ctx, http.MethodPost, "/v1/notifications", body, nil); err != nil {
			return err
		}
	}
	site.StopWorkers()
	return nil
}

// In the measurement of the sender alone: number of devices, and of sends under way.
const (
	sendDevices = 1000
	sendAtOnce  = 128
)

// send measures the number of messages that the FCM sender sends per second of CPU time, alone in this process.
func (e *Escalation) send(ctx context.Context, r *report.Result, _ int) error {
	if e.Sends == 0 {
		return nil
	}
	ph, err := e.startPhones(ctx, Phones{Devices: sendDevices, Quiet: true})
	if err != nil {
		return err
	}
	defer ph.stop()
	s, err := ph.sender()
	if err != nil {
		return err
	}
	defer s.Close()
	sent, used, err := sendFor(ctx, s, ph.Addresses, e.Sends)
	if err != nil {
		return err
	}
	r.Add("FCM sender alone", "sends in a second of its CPU time", "", float64(sent)/used.Seconds())
	r.Add("FCM sender alone", "sends", "/s", float64(sent)/e.Sends.Seconds())
	return nil
}

// sender makes an FCM sender that sends to these phones.
func (p *phones) sender() (*fcm.Sender, error) {
	account, err := fcm.ParseAccount(p.Account, urlguard.All)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.Cert)
	client := provider.Client(urlguard.All)
	t, ok := client.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the senders' transport is a %T", client.Transport)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return fcm.New(fcm.Config{Account: account, BaseURL: p.URL, Targets: urlguard.All, Client: client})
}

func sendFor(ctx context.Context, s *fcm.Sender, to []json.RawMessage, span time.Duration) (sent int64, used time.Duration, err error) {
	before, err := meter.Read(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	expires, until := time.Now().Add(time.Hour), time.Now().Add(span)
	content := push.Content{
		Title: "New ride request", Body: "2.1 km away, 120 rupees", Data: json.RawMessage(`{"ride":"9f3","fare":120,"from":[12.97,77.59]}`),
		FCM: push.FCMContent{ChannelID: "rides", Sound: "default"},
	}
	var n atomic.Int64
	var failed atomic.Pointer[error]
	var senders sync.WaitGroup
	for range sendAtOnce {
		senders.Go(func() {
			for failed.Load() == nil && time.Now().Before(until) {
				_, err := s.Send(ctx, push.Request{
					ID: "0b5d9f4e-8a3c-5b6e-9d2f-1c7a6e5d4b3a", App: testbed.App, Address: bytes.Clone(to[int(n.Add(1))%len(to)]),
					Content: content, Urgency: push.UrgencyHigh, ExpiresAt: expires,
				})
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	senders.Wait()
	if err := failed.Load(); err != nil {
		return 0, 0, *err
	}
	after, err := meter.Read(os.Getpid())
	return n.Load(), after.CPU - before.CPU, err
}
