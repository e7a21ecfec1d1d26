package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/sending/webpush"
)

// Push measures the push service: messages that senders with VAPID post to devices that are away, each answered once it is on disk, and the memory of
// devices that are connected and do nothing.
type Push struct {
	Common
	Devices     int // with a channel each; 0: sends are not measured
	Publishers  int
	Size        int // bytes of an encrypted message
	Warmup, For time.Duration
	Sessions    int // idle devices; 0: they are not measured
	Settle      time.Duration
}

// Run measures.
func (p *Push) Run(ctx context.Context) (*report.Result, error) {
	r := p.begin("push", "push service: durable sends to devices that are away, and idle devices",
		set("devices", p.Devices), set("senders", p.Publishers), set("message", fmt.Sprintf("%d B", p.Size)), set("for", p.For), set("idle devices", p.Sessions), set("settling for at most", p.Settle))
	return r, p.runs(ctx, func(ctx context.Context, run int) error {
		if p.Devices > 0 {
			if err := p.sends(ctx, r, run); err != nil {
				return err
			}
		}
		if p.Sessions > 0 {
			return p.idle(ctx, r)
		}
		return nil
	})
}

func (p *Push) sends(ctx context.Context, r *report.Result, run int) error {
	site, err := p.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	p.Testbed.Say("run %d: registering %d devices", run+1, p.Devices)
	cfg, err := p.publishing(ctx, site)
	if err != nil {
		return err
	}
	pub, err := site.NewWorker(ctx)
	if err != nil {
		return err
	}
	defer pub.Stop()
	if _, err := pub.Call(ctx, worker.Request{Publishers: cfg}); err != nil {
		return err
	}
	p.Testbed.Say("run %d: sending", run+1)
	if _, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{For: p.Warmup}}); err != nil {
		return err
	}
	profile := p.profile(ctx, site.Servers[0], p.For, run)
	w := meter.Start(site.PIDs(), sampling)
	reply, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{For: p.For}})
	samples := w.Stop()
	if err != nil {
		return err
	}
	if err := profile.Wait(); err != nil {
		return err
	}
	got := reply.Published
	sum := got.Latency.Summary()
	const group = "sends"
	r.Add(group, "stored, each before its answer", "/s", float64(got.Accepted)/got.Seconds)
	r.Add(group, "refused", "", float64(got.Refused))
	r.Add(group, "server CPU each", "µs", meter.CPU(samples)/float64(max(got.Accepted, 1))*1e6)
	r.Add(group, "answered p50", "ms", sum.P50)
	r.Add(group, "answered p99", "ms", sum.P99)
	return site.Alive()
}

// publishing registers the devices, and returns the settings of a sender to all devices.
func (p *Push) publishing(ctx context.Context, site *testbed.Site) (*loadgen.PublishConfig, error) {
	key, err := webpush.NewKey()
	if err != nil {
		return nil, err
	}
	origin := "http://" + site.Servers[0].HTTP
	token, err := key.Token(origin, time.Now().Add(time.Hour))
	if err != nil {
		return nil, err
	}
	cfg := &loadgen.PublishConfig{
		Targets: site.Targets(), Via: loadgen.PushService, Publishers: p.Publishers, Size: p.Size, Prefix: prefix(), Recipients: 1,
		VAPID: "vapid t=" + token + ", k=" + key.Public(),
	}
	for range p.Devices {
		path, err := registerDevice(ctx, "ws://"+site.Servers[0].HTTP+"/push", key.Public())
		if err != nil {
			return nil, fmt.Errorf("register a device: %w", err)
		}
		cfg.Endpoints = append(cfg.Endpoints, path)
	}
	return cfg, nil
}

// registerDevice makes a device with a channel, and returns the path of its push endpoint.
func registerDevice(ctx context.Context, at, key string) (path string, err error) {
	ws, _, err := websocket.Dial(ctx, at, &websocket.DialOptions{Subprotocols: []string{"push-notification"}}) // the library closes it
	if err != nil {
		return "", err
	}
	defer func() { _ = ws.CloseNow() }()
	var answer struct{ PushEndpoint string }
	for _, m := range []map[string]any{
		{"messageType": "hello", "use_webpush": true},
		{"messageType": "register", "channelID": "deadbeef-0000-4000-8000-0123456789ab", "key": key},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			return "", err
		}
		if err := ws.Write(ctx, websocket.MessageText, b); err != nil {
			return "", err
		}
		if _, b, err = ws.Read(ctx); err != nil {
			return "", err
		}
		if err := json.Unmarshal(b, &answer); err != nil {
			return "", err
		}
	}
	u, err := url.Parse(answer.PushEndpoint)
	if err != nil {
		return "", err
	}
	return u.Path, nil
}

func (p *Push) idle(ctx context.Context, r *report.Result) error {
	site, err := p.Testbed.NewSite(ctx, 1)
	if err != nil {
		return err
	}
	defer site.Close()
	idle := Idle{Common: Common{Testbed: p.Testbed, Workers: p.Workers}, Settle: p.Settle}
	f, err := idle.footprint(ctx, site, loadgen.PushService, p.Sessions)
	if err != nil {
		return err
	}
	r.Add("idle", "memory of a device", "B", float64(f.after-f.before)/float64(p.Sessions))
	return site.Alive()
}
