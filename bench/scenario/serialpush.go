package scenario

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/testbed"
)

// longProfile is the span of profiles of work that ends by itself. The server rests for the remaining time.
const longProfile = 15 * time.Second

// campaign profiles a campaign to a test FCM in a process of its own.
func (s *Serial) campaign(ctx context.Context, of *serialLoad, run int) (units, cpu float64, err error) {
	e := Escalation{Common: s.Common}
	p, err := e.beginPushed(ctx, Phones{Devices: of.clients, Quiet: true})
	if err != nil {
		return 0, 0, err
	}
	defer p.close()
	s.Testbed.Say("run %d: registering %d phones", run+1, of.clients)
	if err := p.register(ctx, 0, of.clients, "", campaignTag); err != nil {
		return 0, 0, err
	}
	id, err := p.createCampaign(ctx)
	if err != nil {
		return 0, 0, err
	}
	s.Testbed.Say("run %d: sending", run+1)
	profile := s.profile(ctx, p.server, longProfile, run)
	before, err := meter.Read(p.server.PID)
	if err != nil {
		return 0, 0, err
	}
	if err := p.runCampaign(ctx, id); err != nil {
		return 0, 0, err
	}
	after, err := meter.Read(p.server.PID)
	if err != nil {
		return 0, 0, err
	}
	return float64(of.clients), (after.CPU - before.CPU).Seconds(), profile.Wait()
}

// createCampaign creates a campaign to all registered phones.
func (p *pushed) createCampaign(ctx context.Context) (id string, err error) {
	var campaign struct{ ID string }
	err = p.server.Call(ctx, http.MethodPost, "/v1/campaigns", map[string]any{
		"content": map[string]string{"title": "News", "body": "The city centre is closed on Sunday"}, "audience": map[string]any{"channels": []string{"fcm"}, "tags_any": []string{campaignTag}},
	}, &campaign)
	return campaign.ID, err
}

// campaignPatience is how long a campaign may take.
const campaignPatience = 5 * time.Minute

// runCampaign starts a campaign and waits until it has ended.
func (p *pushed) runCampaign(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, campaignPatience, fmt.Errorf("the campaign was not sent within %s", campaignPatience))
	defer cancel()
	if err := p.server.Call(ctx, http.MethodPost, "/v1/campaigns/"+id+"/start", struct{}{}, nil); err != nil {
		return err
	}
	for {
		var now struct{ State, Detail string }
		if err := p.server.Call(ctx, http.MethodGet, "/v1/campaigns/"+id, struct{}{}, &now); err != nil {
			return err
		}
		switch now.State {
		case "completed":
			return nil
		case "failed", "cancelled", "paused":
			return fmt.Errorf("the campaign is %s: %s", now.State, now.Detail)
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// gateway profiles requests that a worker behind the gateway answers.
func (s *Serial) gateway(ctx context.Context, of *serialLoad, run int) (units, cpu float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	g := Gateway{Common: s.Common, For: s.For, Conns: of.clients}
	defer g.parts.Wait()
	defer cancel()
	server, err := testbed.StartServer(ctx, s.Testbed.Server)
	if err != nil {
		return 0, 0, err
	}
	defer server.Stop()
	base := "http://" + server.HTTP
	if _, _, err := g.part(ctx, PartWorker, base); err != nil {
		return 0, 0, err
	}
	m := measured{caller: caller{
		transport: &http.Transport{MaxIdleConnsPerHost: g.Conns, MaxConnsPerHost: g.Conns}, address: base + "/gw/bench" + quickPath,
		load: &load{path: quickPath, conns: g.Conns},
	}}
	defer m.transport.CloseIdleConnections()
	if _, err := m.call(ctx, warming, true); err != nil {
		return 0, 0, err
	}
	profile := s.profile(ctx, server, g.For, run)
	if err := m.add(ctx, []int{server.PID}, g.For); err != nil {
		return 0, 0, err
	}
	return float64(len(m.took)), m.cpu.Seconds(), profile.Wait()
}
