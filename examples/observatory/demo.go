package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

// options say where things are.
type options struct {
	godwit, python, units, dir string
	http, grpc, backend        string
	env                        []string // of the units
	once                       bool
	encore                     func(context.Context, *stage, addresses) error // called after the story; may be nil
	say                        func(format string, args ...any)
}

// stage is the demonstration while it runs.
type stage struct {
	*options
	crowd   *crowd
	client  *godwit.Client
	backend string // URL
}

// demo sets everything up, plays the story, and stops everything.
func demo(ctx context.Context, o *options) error {
	units := []string{"observer-2", "observer-3", "observer-4"}
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err := prepare(o.dir, units); err != nil {
		return err
	}
	server, at, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer server.stop()
	o.say("Godwit listens: API https://%s, units %s", at.HTTP, at.GRPC)

	s := &stage{options: o}
	if s.client, err = connect(o.dir, at.HTTP); err != nil {
		return err
	}
	defer s.client.Close()
	stop, err := s.serveBackend(ctx)
	if err != nil {
		return err
	}
	defer stop()
	o.say("the back end listens: POST %s/notify/{group}/{object}/{n}/{rate}", s.backend)

	if s.crowd, err = startUnits(ctx, o, at, units); err != nil {
		return err
	}
	defer s.crowd.finish()
	if err := s.story(ctx, units); err != nil {
		return err
	}
	if o.encore != nil {
		if err := o.encore(ctx, s, at); err != nil {
			return err
		}
	}
	if o.once {
		return nil
	}
	return s.stay(ctx, server)
}

// prepare makes the folder, the certificates and the back end's API key.
func prepare(dir string, units []string) error {
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		return err
	}
	if err := makeCertificates(dir, units); err != nil {
		return err
	}
	key := filepath.Join(dir, "api-key")
	if _, err := os.Stat(key); err == nil {
		return nil
	}
	return os.WriteFile(key, []byte(rand.Text()+"\n"), 0o600)
}

// connect returns the back end's client, which trusts the demonstration's authority.
func connect(dir, addr string) (*godwit.Client, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, "api-key"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return godwit.New("https://"+addr, godwit.WithAPIKey(strings.TrimSpace(string(key))), godwit.WithHTTPClient(&http.Client{Transport: transport}))
}

// serveBackend starts the back end; stop ends it.
func (s *stage) serveBackend(ctx context.Context) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.options.backend)
	if err != nil {
		return nil, err
	}
	s.backend = "http://" + l.Addr().String()
	srv := &http.Server{Handler: (&backend{s.client}).handler(), ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // until it is closed
	}()
	return func() {
		_ = srv.Close()
		<-done
	}, nil
}

// story demonstrates objects.
func (s *stage) story(ctx context.Context, units []string) error {
	away, rest := units[0], units[1:]
	s.say("1. %s follow camera-config and firmware", strings.Join(units, ", "))
	if err := s.crowd.await(ctx, lines(units, "%s follows camera-config, firmware")...); err != nil {
		return err
	}
	version, err := s.publish(ctx, "camera-config", 3, 20)
	if err != nil {
		return err
	}
	if err := s.crowd.await(ctx, lines(units, "%s has camera-config version "+version)...); err != nil {
		return err
	}
	s.say("2. %s loses its link", away)
	if err := s.crowd.tell("away %s", away); err != nil {
		return err
	}
	if err := s.crowd.await(ctx, away+" is away"); err != nil {
		return err
	}
	if version, err = s.publish(ctx, "camera-config", 20, 20); err != nil {
		return err
	}
	if err := s.crowd.await(ctx, lines(rest, "%s has camera-config version "+version)...); err != nil {
		return err
	}
	s.say("3. %s is back: of the versions that it missed, it is told the latest alone", away)
	if err := s.crowd.tell("back %s", away); err != nil {
		return err
	}
	if err := s.crowd.await(ctx, away+" has camera-config version "+version); err != nil {
		return err
	}
	return s.show(ctx, "camera-config", version)
}

func lines(units []string, format string) (all []string) {
	for _, u := range units {
		all = append(all, fmt.Sprintf(format, u))
	}
	return all
}

// publish asks the back end to put n versions, and returns the last.
func (s *stage) publish(ctx context.Context, object string, n, rate int) (version string, err error) {
	target := fmt.Sprintf("%s/notify/%s/%s/%d/%d", s.backend, group, object, n, rate)
	s.say("   POST %s", target)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s: %s", target, resp.Status, body)
	}
	var done notified
	if err := json.Unmarshal(body, &done); err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", target, err)
	}
	return done.Version.String(), nil
}

// show prints each unit's version, after all units have acknowledged the latest.
func (s *stage) show(ctx context.Context, object, version string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not all units acknowledged version %s in %s", version, patience))
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var list []godwit.Registration
	for {
		var err error
		if list, err = s.client.Registrations(ctx, group, object); err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(r godwit.Registration) bool { return r.AckedVersion.String() != version }) {
			break
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.say("4. who follows %s:", object)
	for i := range list {
		r := &list[i]
		s.say("    %-20s online %-5t sent %s, acknowledged %s", r.Recipient, r.Online, r.SentVersion, r.AckedVersion)
	}
	return nil
}

// stay keeps everything running for people who want to experiment.
func (s *stage) stay(ctx context.Context, server *process) error {
	s.say("\nAll of it keeps running; Ctrl-C ends it. %s is you: in %s run\n\n    %s %s\n", yours, s.dir, s.python, "../listing.py")
	select {
	case <-ctx.Done():
		return nil
	case <-server.ended:
		return server.failure()
	case <-s.crowd.ended:
		return s.crowd.failure()
	}
}
