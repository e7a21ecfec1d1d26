package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"godwit.dev/godwit/bench/loadgen"
)

// Rival is another server to which the same load can be applied.
type Rival struct {
	Name     string // what reports call it
	program  string
	Protocol string // transport of the subscribers and way to publish
	config   func(dir, addr, other string) string
}

// Rivals returns the servers that Godwit is compared with. Their configuration is that of their packages, except for a separate port, open
// access, and as many connections as files allow. Their names say whether answered publishes are on disk.
func Rivals() []Rival {
	return []Rival{
		{Name: "Mosquitto, MQTT QoS 1, in memory", program: "mosquitto", Protocol: loadgen.MQTT, config: func(_, addr, _ string) string {
			_, port, _ := net.SplitHostPort(addr)
			return fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nlog_type error\n", port)
		}},
		{Name: "nats-server, core, in memory, at most once", program: "nats-server", Protocol: loadgen.NATS, config: func(_, addr, _ string) string {
			return fmt.Sprintf("listen: %s\nmax_connections: 100000\n", addr)
		}},
		{Name: "nats-server, MQTT QoS 1 on JetStream, in memory, on disk within 2 minutes", program: "nats-server", Protocol: loadgen.MQTT, config: func(dir, addr, other string) string {
			return fmt.Sprintf("listen: %s\nserver_name: bench\nmax_connections: 100000\njetstream { store_dir: %q }\nmqtt { listen: %q }\n", other, dir, addr)
		}},
	}
}

// Path returns the path of the rival's program. If it is missing, the error names the package to install.
func (r *Rival) Path() (string, error) {
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + r.program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed (Debian and Ubuntu: apt-get install %s)", r.program, r.program)
}

// start starts the rival with a folder of its own and waits until it listens.
func (r *Rival) start(ctx context.Context, o *ServerOptions) (*Server, error) {
	path, err := r.Path()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "godwit-bench-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, options: *o, ended: make(chan struct{})}
	if err := r.launch(ctx, s, path); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s: %w", r.program, err)
	}
	return s, nil
}

func (r *Rival) launch(ctx context.Context, s *Server, path string) error {
	addr, err := s.port(ctx)
	if err != nil {
		return err
	}
	other, err := s.port(ctx)
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "rival.conf")
	if err := os.WriteFile(config, []byte(r.config(s.dir, addr, other)), 0o600); err != nil {
		return err
	}
	if s.stderr, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "-c", config)
	cmd.Stdout, cmd.Stderr = s.stderr, s.stderr
	cmd.Env = s.options.Confined.Environ()
	free, err := s.options.Confined.Start(cmd)
	if err != nil {
		return err
	}
	s.cmd, s.PID = cmd, cmd.Process.Pid
	go func() { // ends with the process, which Stop waits for
		defer close(s.ended)
		_ = cmd.Wait() // the server's log contains the reason
		free()
	}()
	s.HTTP = addr
	return s.listens(ctx)
}

// listens waits until the server accepts connections.
func (s *Server) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, errors.New("it did not listen in time"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", s.HTTP); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return fmt.Errorf("it ended: %s", s.Log())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
