package quicgate_test

import (
	"testing"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
)

// unreadBytes is how much QUIC's flow control lets a client take that does not read.
const unreadBytes = 1 << 20

func queued(s *gatetest.Server) int64 { return doorOf(s).Waiting() }

func TestGatewayJSON(t *testing.T) {
	gatetest.Run(t, gatetest.Gate{Mount: mount, Dial: dialAs(quicgate.ProtocolJSON), Buffers: unreadBytes, Queued: queued})
}

func TestGatewayProto(t *testing.T) {
	gatetest.RunEncoded(t, gatetest.Gate{Mount: mount, Dial: dialAs(quicgate.ProtocolProto), Buffers: unreadBytes, Queued: queued})
}

func TestGatewayOnTwoNodes(t *testing.T) {
	gatetest.RunAgainOnTwo(t, gatetest.Gate{Mount: mount, Dial: dialAs(quicgate.ProtocolJSON), Buffers: unreadBytes, Queued: queued})
}
