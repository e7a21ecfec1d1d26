package idle

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

// smallBuffers makes connections whose kernel buffer takes little, so that the server's own queue fills soon.
func smallBuffers() *http.Client {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var setErr error
		err := c.Control(func(fd uintptr) {
			setErr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
		if err == nil {
			err = setErr
		}
		return err
	}}
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.DialContext(ctx, network, addr)
		},
	}}
}
