package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	godwit "godwit.dev/godwit/clients/go"
)

// options say where things are.
type options struct {
	godwit, orders, python string // programs
	here, dir              string
	http, gateway          string // where the server listens
	say                    func(format string, args ...any)
	ready                  func(*shop) // called when everything is running; may be nil
}

// shop is the demonstration while it runs.
type shop struct {
	*options
	client  *godwit.Client
	url     string
	gateway string // the gateway's URL: workers' answers are served under a separate origin
	nats    string // address for NATS clients
	token   string // token of a visitor of the page
	server  *process
	workers map[string]*process
}

// visitor is the recipient of the page's token. A shop of your own makes a token for each user who signs in.
const visitor = "visitor-1"

// services are the gateway's services and who may call them. A service that is not listed here, such as "warehouse", is only for back ends.
// A probe is a call that changes nothing.
var services = []struct{ name, access, probe, path string }{
	{"shop", "public", http.MethodGet, ""},
	{"stock", "public", http.MethodGet, ""},
	{"prices", "public", http.MethodGet, "coffee"},
	{"orders", "client", http.MethodPost, ""}, // without an order
}

// demo sets everything up, keeps it running until ctx or the server ends, and then stops everything.
func demo(ctx context.Context, o *options) (err error) {
	for _, p := range []*string{&o.dir, &o.here} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "godwit-workers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	s := &shop{options: o, workers: make(map[string]*process)}
	var at addresses
	if s.server, at, err = startServer(ctx, o, data); err != nil {
		return err
	}
	defer s.server.stop()
	s.url, s.gateway, s.nats = "http://"+at.HTTP, "http://"+at.Gateway, at.NATS
	if s.client, err = godwit.New(s.url, godwit.WithAPIKey("dev")); err != nil {
		return err
	}
	defer s.client.Close()
	if err := s.open(ctx, data); err != nil {
		return err
	}
	defer s.close()
	if err := s.hire(ctx); err != nil {
		return err
	}
	closePage, err := s.servePage(ctx)
	if err != nil {
		return err
	}
	defer closePage()
	if err := s.await(ctx); err != nil {
		return err
	}
	s.say("The shop is open: %s/gw/shop/\n", s.gateway)
	for _, name := range []string{"orders", "stock", "prices"} {
		s.say("  %-7s is process %d, and prints to %s", name, s.workers[name].cmd.Process.Pid, s.workers[name].log)
	}
	s.say("\nNATS clients: nats://%s, token dev. Ctrl-C ends everything.", s.nats)
	if o.ready != nil {
		o.ready(s)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.server.ended:
		return s.server.failure()
	}
}

// open sets who may call the services and which pages may subscribe to topics, and creates the visitor's token.
func (s *shop) open(ctx context.Context, data string) error {
	for _, v := range services {
		call := godwit.Call{Method: http.MethodPut, Path: "/v1/gateway/" + v.name, Body: map[string]string{"access": v.access, "timeout": "2s"}}
		if err := s.client.Call(ctx, call, nil); err != nil {
			return fmt.Errorf("open service %s: %w", v.name, err)
		}
	}
	if out, err := exec.CommandContext(ctx, s.godwit, "app", "set", "demo", "--data", data, "--origin", s.gateway).CombinedOutput(); err != nil {
		return fmt.Errorf("let the page watch topics: %w: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, s.godwit, "token", "--data", data, "--app", "demo", "--recipient", visitor, "--topics", "shop.>").Output()
	if err != nil {
		return fmt.Errorf("make the visitor's token: %w", err)
	}
	s.token = strings.TrimSpace(string(out))
	return nil
}

// hire starts the workers. Each worker's key has only the rights that the worker needs.
func (s *shop) hire(ctx context.Context) error {
	for _, w := range []struct {
		name    string
		roles   []string
		command []string
	}{
		{"orders", []string{"worker", "publish"}, []string{s.orders}},
		{"stock", []string{"worker", "publish"}, []string{s.python, filepath.Join(s.here, "stock.py")}},
		{"prices", []string{"worker", "read"}, []string{
			s.godwit, "serve-subject", "prices.get.*", "--recipient", "prices-1", "--", filepath.Join(s.here, "prices.sh"), filepath.Join(s.here, "prices.txt"),
		}},
	} {
		key, err := s.key(ctx, w.name, w.roles)
		if err != nil {
			return err
		}
		env := []string{"GODWIT_API_KEY=" + key, "GODWIT_URL=" + s.url, "NATS_URL=nats://" + s.nats}
		if s.workers[w.name], err = launch(ctx, s.dir, w.name, env, w.command[0], w.command[1:]...); err != nil {
			delete(s.workers, w.name)
			return err
		}
	}
	return nil
}

// key makes an API key.
func (s *shop) key(ctx context.Context, name string, roles []string) (string, error) {
	var made struct{ Key string }
	call := godwit.Call{Method: http.MethodPost, Path: "/v1/keys", Body: map[string]any{"name": name, "roles": roles}}
	if err := s.client.Call(ctx, call, &made); err != nil {
		return "", fmt.Errorf("make a key for %s: %w", name, err)
	}
	return made.Key, nil
}

// await waits until each service has a worker: until then, the gateway answers 503.
func (s *shop) await(ctx context.Context) error {
	for _, v := range services {
		p := s.workers[v.name]
		if p == nil {
			p = s.server // the page is served by this program
		}
		if err := p.until(ctx, "nobody serves "+v.name, func() (bool, error) {
			req, err := http.NewRequestWithContext(ctx, v.probe, s.gateway+"/gw/"+v.name+"/"+v.path, nil)
			if err != nil {
				return false, err
			}
			req.Header.Set("Authorization", "Bearer "+s.token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false, err
			}
			resp.Body.Close()
			return resp.StatusCode != http.StatusServiceUnavailable, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// close stops the workers.
func (s *shop) close() {
	for _, p := range s.workers {
		p.stop()
	}
}
