package godwit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	pb "godwit.dev/godwit/api/godwitpb"
)

type grpcConn struct {
	cc     *grpc.ClientConn
	stream grpc.BidiStreamingClient[pb.ClientFrame, pb.ServerFrame]
	cancel context.CancelFunc
	ended  chan struct{} // closed when recv has failed
	ponged chan struct{} // receives a value when a pong has arrived
	once   sync.Once
}

// newGRPC makes a connection to the gRPC address, which is dialled at its first use.
func (c *Client) newGRPC(opts ...grpc.CallOption) (*grpc.ClientConn, error) {
	// Later options override earlier ones, so the caller's credentials replace these.
	return grpc.NewClient(c.grpcAddr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(append(opts, grpc.MaxCallRecvMsgSize(maxFrame))...),
	}, c.grpcOpts...)...)
}

func (c *Client) dialGRPC(ctx context.Context) (conn, error) {
	cc, err := c.newGRPC(grpc.ForceCodecV2(lenientCodec{encoding.GetCodecV2("proto")}))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := pb.NewClientClient(cc).Connect(ctx)
	if err != nil {
		cancel()
		_ = cc.Close() // no data was sent yet that could be lost
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &grpcConn{cc: cc, stream: stream, cancel: cancel, ended: make(chan struct{}), ponged: make(chan struct{}, 1)}, nil
}

func (c *grpcConn) send(frames ...*clientFrame) error {
	for _, f := range frames {
		if err := c.stream.Send(f.proto()); err != nil {
			return err
		}
	}
	return nil
}

func (c *grpcConn) recv() (serverFrame, error) {
	var r received
	err := c.stream.RecvMsg(&r)
	if err == nil {
		if r.frame.GetPong() != nil {
			select {
			case c.ponged <- struct{}{}:
			default:
			}
		}
		return r.serverFrame(), nil
	}
	c.once.Do(func() { close(c.ended) })
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return serverFrame{}, &RefusedError{Reason: strings.ToLower(status.Code(err).String()), Err: err}
	}
	return serverFrame{}, err
}

// finish sends a ping: its pong means that the server has handled everything sent before. Closing at once would drop frames that are still
// queued here.
func (c *grpcConn) finish() {
	select {
	case <-c.ponged: // of an earlier ping
	default:
	}
	if c.stream.Send((&clientFrame{Ping: &ping{}}).proto()) == nil {
		select {
		case <-c.ponged:
		case <-c.ended:
		case <-time.After(finishPatience):
		}
	}
	c.abort()
}

func (c *grpcConn) abort() {
	c.cancel()
	_ = c.cc.Close()
}
