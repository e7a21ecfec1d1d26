package app

import "net"

// serveGRPC closes the listener: this build has no gRPC engine.
func (a *App) serveGRPC(ln net.Listener) (stop func(), err error) {
	a.log.Warn("this build serves no gRPC", "addr", ln.Addr().String())
	a.addrs.GRPC = ""
	return nil, ln.Close()
}
