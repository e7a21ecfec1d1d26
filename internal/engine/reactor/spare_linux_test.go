package reactor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/test/blackbox"
)

// exhausted leaves the process without a free descriptor until the returned function is called.
func exhausted(t *testing.T) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	var held []int
	low := was
	low.Cur = min(was.Cur, 512)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	return sync.OnceFunc(func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

// closedWithoutADescriptor connects while the process has no free descriptor, and returns why the connection was not closed in good order.
func closedWithoutADescriptor(t *testing.T, port int) error {
	t.Helper()
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(client) }()
	_ = unix.SetsockoptTimeval(client, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	defer exhausted(t)()
	if err := unix.Connect(client, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if n, err := unix.Read(client, make([]byte, 1)); n != 0 || err != nil {
		return fmt.Errorf("read %d bytes: %w", n, err)
	}
	return nil
}

// TestConnectionsWithoutADescriptorAreClosed: while the process has no free descriptor, new connections are closed at once and delay no
// others.
func TestConnectionsWithoutADescriptorAreClosed(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d, func(t *testing.T) {
			h := newHarness(t, Config{Driver: d}, false)
			shed := make(chan struct{}, 10)
			addr, _ := h.serve(Limits{NoFiles: func() { shed <- struct{}{} }}, func(c *Conn) (Handler, error) {
				return echo(c), nil
			})
			h.dial(addr) // opens the descriptors that are opened lazily
			to, err := net.ResolveTCPAddr("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			// A goroutine that had not begun to wait for connections may have given its spare descriptor up to the test.
			blackbox.Eventually(t, "a connection is closed and counted", func() error {
				if err := closedWithoutADescriptor(t, to.Port); err != nil {
					return err
				}
				select {
				case <-shed:
					return nil
				case <-time.After(5 * time.Second):
					return errors.New("it is not counted")
				}
			})
			blackbox.Eventually(t, "a connection when there are descriptors again", func() error {
				c := h.dial(addr)
				_, err := c.Write([]byte("x"))
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 1))
				}
				return err
			})
		})
	}
}
