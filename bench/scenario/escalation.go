package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
)

// Escalation measures the resources of escalation steps beyond live, and the time until they reach a phone. A test FCM replaces Google's.
type Escalation struct {
	Common
	Each     int           // escalations to recipients who are offline, and to those who are online and do not acknowledge
	After    time.Duration // delay of the step for recipients who are online
	Campaign int           // messages of the campaign that runs beside the escalations; 0: not measured
	Cap      int           // messages a second that FCM accepts
	Rate     float64       // escalations a second beside it
	Find     time.Duration // for how long the campaign runs alone, until its rate has adapted
	Beside   time.Duration // for how long escalations run beside the campaign
	Pairs    int           // pairs of measurements of publishing and of starting, without and with a step; 0: not measured
	For      time.Duration // how long each is published
	Armed    int           // pending steps when the server starts
	Sends    time.Duration // duration of the measurement of the FCM sender alone; 0: not measured
}

// Run measures.
func (e *Escalation) Run(ctx context.Context) (*report.Result, error) {
	r := e.begin("escalation", "escalation: when a push leaves for who is away or silent, and what steps cost",
		set("escalations", e.Each), set("due after", e.After), set("campaign", e.Campaign), set("FCM takes", fmt.Sprintf("%d/s", e.Cap)),
		set("escalations beside it", report.Format(e.Rate)+"/s for "+e.Beside.String()), set("pairs", e.Pairs), set("armed steps", e.Armed))
	return r, e.runs(ctx, func(ctx context.Context, n int) error {
		for _, part := range []struct {
			name string
			run  func(context.Context, *report.Result, int) error
		}{
			{"reach", e.reach}, {"beside a campaign", e.beside}, {"publish", e.publish}, {"start", e.start}, {"send", e.send},
		} {
			e.Testbed.Say("run %d: %s", n+1, part.name)
			if err := part.run(ctx, r, n); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
		return nil
	})
}

// pushed is a server and the test FCM that it sends to.
type pushed struct {
	*testbed.Site
	server *testbed.Server
	phones *phones
}

func (p *pushed) close() {
	p.Close()
	p.phones.stop()
}

// beginPushed starts both and configures the test FCM in the server.
func (e *Escalation) beginPushed(ctx context.Context, o Phones) (*pushed, error) {
	ph, err := e.startPhones(ctx, o)
	if err != nil {
		return nil, err
	}
	bed := *e.Testbed
	bed.Server.Env = append(bed.Server.Env[:len(bed.Server.Env):len(bed.Server.Env)], "SSL_CERT_FILE="+ph.certFile)
	bed.Server.Args = append(bed.Server.Args[:len(bed.Server.Args):len(bed.Server.Args)], "--allow-private-urls")
	site, err := bed.NewSite(ctx, 1)
	if err != nil {
		ph.stop()
		return nil, err
	}
	p := &pushed{Site: site, server: site.Servers[0], phones: ph}
	err = p.server.Call(ctx, http.MethodPut, "/v1/channels/fcm", map[string]string{"service_account": string(ph.Account), "base_url": ph.URL}, nil)
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// registering is the number of endpoints that one request registers.
const registering = 1000

// registration is a line of the request that registers endpoints.
type registration struct {
	Channel   string          `json:"channel"`
	Recipient string          `json:"recipient,omitempty"`
	Address   json.RawMessage `json:"address"`
	Tags      []string        `json:"tags,omitempty"`
}

// register registers count devices from first on as endpoints, which belong to the recipients of a prefix unless it is empty.
func (p *pushed) register(ctx context.Context, first, count int, prefix string, tags ...string) error {
	for done := 0; done < count; {
		var lines bytes.Buffer
		enc := json.NewEncoder(&lines)
		for range min(registering, count-done) {
			reg := registration{Channel: "fcm", Address: p.phones.Addresses[first+done], Tags: tags}
			if prefix != "" {
				reg.Recipient = loadgen.RecipientName(prefix, done)
			}
			if err := enc.Encode(reg); err != nil {
				return err
			}
			done++
		}
		if err := p.server.Call(ctx, http.MethodPost, "/v1/endpoints/batch", lines.Bytes(), nil); err != nil {
			return err
		}
	}
	return nil
}

// step is one step of an escalation, as JSON.
type step struct {
	Channel string `json:"channel"`
	After   string `json:"after,omitempty"`
}

// escalate publishes to a recipient a notification with a push step after a delay.
func (p *pushed) escalate(ctx context.Context, id, to string, after time.Duration) error {
	return p.server.Call(ctx, http.MethodPost, "/v1/notifications", map[string]any{
		"id": id, "to": to, "title": "New ride request", "body": "2.1 km away, 120 rupees", "priority": "high",
		"escalate": []step{{Channel: "live"}, {Channel: "fcm", After: after.String()}},
	}, nil)
}

// pushPatience limits the wait for a push.
const pushPatience = 30 * time.Second

// tellReach adds the delays of pushes, and the number of missing ones.
func tellReach(r *report.Result, group, name string, late *latency.Histogram, missing, run int) {
	if late.Count() > 0 {
		s := late.Summary()
		for _, f := range []struct {
			name string
			v    float64
		}{{"p50", s.P50}, {"p99", s.P99}, {"max", s.Max}} {
			r.Add(group, name+" "+f.name, "ms", f.v)
		}
		r.Curves = append(r.Curves, report.Curve{Name: curveName(group, name, run), Points: late.Curve()})
	}
	r.Add(group, "pushes missing", "", float64(missing))
}
