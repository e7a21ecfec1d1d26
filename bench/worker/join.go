package worker

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"time"

	"godwit.dev/godwit/bench/meter"
)

// protocol changes when a worker of another build could not take part.
const protocol = 1

// Machine is what a worker on another machine says of itself.
type Machine struct {
	Name     string        `json:"name"`
	Protocol int           `json:"protocol"`
	Host     meter.Machine `json:"host"`
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._:@+-]{1,128}$`)

// check reports why a machine cannot take part.
func (m *Machine) check() error {
	if m.Protocol != protocol {
		return fmt.Errorf("the worker speaks version %d of the protocol and the run version %d: install the same build on both", m.Protocol, protocol)
	}
	return CheckName(m.Name)
}

// CheckName returns an error unless a machine may have this name, which is written into results.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("a machine's name has 1 to 128 characters of A-Za-z0-9._:@+-, which %.200q has not", name)
	}
	return nil
}

// mostSessions is the number of a machine's workers that one run may use at a time.
const mostSessions = 64

// dialPatience is how long a worker tries to reach the run.
const dialPatience = 10 * time.Second

// errEnded is how a run ends that says so.
var errEnded = errors.New("the run has ended")

// Join takes part in the run at addr, whose token it must know, until that ends. name distinguishes this machine from the others.
func Join(ctx context.Context, addr, token, name string) error {
	cfg, err := tlsConfig(token, sideWorker, sideRun)
	if err != nil {
		return err
	}
	m := Machine{Name: name, Protocol: protocol, Host: meter.Here()}
	if err := m.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	slots := make(chan struct{}, mostSessions)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ended(ctx)
		}
		conn, lines, err := enter(ctx, cfg, addr, &m)
		if err != nil {
			cancel(err)
			return ended(ctx)
		}
		busy := make(chan struct{})
		wg.Go(func() {
			defer func() { <-slots }()
			if err := session(ctx, conn, lines, busy); err != nil {
				cancel(err)
			}
		})
		select {
		case <-busy:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// ended returns why taking part ended; nil: the run said that it has ended.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// enter connects to the run and is welcomed.
func enter(ctx context.Context, cfg *tls.Config, addr string, m *Machine) (net.Conn, *bufio.Scanner, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialPatience}, Config: cfg}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("join the run at %s: %w", addr, err)
	}
	lines := requests(conn)
	var answer Request
	_ = conn.SetDeadline(time.Now().Add(greetPatience)) // fails only if it is closed, as do the reads below
	if err = json.NewEncoder(conn).Encode(Reply{Hello: m}); err == nil {
		err = nextRequest(lines, &answer)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("it closed the connection (%w): is the token the run's?", err)
	case answer.Refused != "":
		err = errors.New("it refused: " + answer.Refused)
	case !answer.Welcome:
		err = errors.New("it answered with something else than a welcome")
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("join the run at %s: %w", addr, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, lines, nil
}

// session serves one connection. It closes busy at the first request, and returns an error if there was none.
func session(ctx context.Context, conn net.Conn, lines *bufio.Scanner, busy chan struct{}) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	used := false
	err := serve(ctx, lines, conn, func() {
		if !used {
			used = true
			close(busy)
		}
	})
	switch {
	case used: // the run has finished with this worker
		return nil
	case errors.Is(err, errEnded):
		return err
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the run was lost: %w", err)
}
