package quicflood

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how to flood.
type Config struct {
	Addr    string  // host:port of the listener
	Sources int     // ports from which packets come, each of a socket of its own
	Packets int     // at most; 0: until the context ends
	Rate    float64 // packets a second; 0: as fast as possible
}

// Sent is what a flood has sent and got so far.
type Sent struct {
	Packets  int64 `json:"packets"`
	Bytes    int64 `json:"bytes"`
	Returned int64 `json:"returned"` // bytes that came back
	Retries  int64 `json:"retries"`  // packets that demand a proof of the address
	Begun    int64 `json:"begun"`    // packets that begin a handshake and were answered by more than a Retry
	Versions int64 `json:"versions"` // lists of the versions that the listener speaks
	// Worst is the largest number of bytes that had come back to one port for each that it had sent, at any moment.
	Worst float64 `json:"worst"`
}

// Flood is a flood of one listener. No packet that comes back is answered.
type Flood struct {
	cfg     Config
	hello   []byte
	sources []*source
	reading sync.WaitGroup

	packets, retries, begun, versions atomic.Int64
}

// source is a port.
type source struct {
	conn      *net.UDPConn
	sent, got atomic.Int64
	worst     atomic.Int64 // thousandths of a byte that had come back for each sent, at most
}

// New opens the ports of a flood.
func New(ctx context.Context, cfg Config) (*Flood, error) {
	to, err := net.ResolveUDPAddr("udp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	hello, err := clientHello(ctx)
	if err != nil {
		return nil, fmt.Errorf("make a ClientHello: %w", err)
	}
	f := &Flood{cfg: cfg, hello: hello}
	for range max(cfg.Sources, 1) {
		c, err := net.DialUDP("udp", nil, to)
		if err != nil {
			f.Close()
			return nil, err
		}
		s := &source{conn: c}
		f.sources = append(f.sources, s)
		f.reading.Go(func() { f.read(s) })
	}
	return f, nil
}

// Close closes the ports.
func (f *Flood) Close() {
	for _, s := range f.sources {
		_ = s.conn.Close()
	}
	f.reading.Wait()
}

// read counts what comes back to a port.
func (f *Flood) read(s *source) {
	b := make([]byte, 2048)
	for {
		n, err := s.conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.worst.Store(max(s.worst.Load(), 1000*s.got.Add(int64(n))/max(s.sent.Load(), 1)))
		switch {
		case n < 5 || b[0]&0x80 == 0: // nothing, or a reset
		case binary.BigEndian.Uint32(b[1:]) == 0:
			f.versions.Add(1)
		case b[0]&0x30 == 0x30:
			f.retries.Add(1)
		case b[0]&0x30 == 0x00:
			f.begun.Add(1)
		}
	}
}

// Run floods until all packets are sent or ctx ends.
func (f *Flood) Run(ctx context.Context) error {
	begun := time.Now()
	for n := 0; (f.cfg.Packets == 0 || n < f.cfg.Packets) && ctx.Err() == nil; n++ {
		packet, err := f.packet(n)
		if err != nil {
			return err
		}
		s := f.sources[n%len(f.sources)]
		s.sent.Add(int64(len(packet)))                  // before an answer can come
		if _, err := s.conn.Write(packet); err == nil { // else the listener's machine refuses, or a buffer is full
			f.packets.Add(1)
		}
		if f.cfg.Rate > 0 {
			due := begun.Add(time.Duration(float64(n+1) / f.cfg.Rate * float64(time.Second)))
			if d := time.Until(due); d > time.Millisecond {
				time.Sleep(d)
			}
		}
	}
	return nil
}

// kinds are the packets of a flood in turn; most begin a handshake.
var kinds = []func(f *Flood) ([]byte, error){
	(*Flood).handshake, (*Flood).handshake, (*Flood).handshake, (*Flood).forgedToken, (*Flood).garbage, (*Flood).otherVersion, (*Flood).truncated,
	(*Flood).handshake, (*Flood).handshake, (*Flood).oversized, (*Flood).unknownConnection,
}

// packet makes the nth packet.
func (f *Flood) packet(n int) ([]byte, error) { return kinds[n%len(kinds)](f) }

func (f *Flood) handshake() ([]byte, error) { return initial(f.hello, nil) }

func (f *Flood) forgedToken() ([]byte, error) { return initial(f.hello, noise(64)) }

func (f *Flood) garbage() ([]byte, error) { return noise(packetBytes), nil }

// otherVersion asks for a version that nobody speaks.
func (f *Flood) otherVersion() ([]byte, error) {
	p, err := initial(f.hello, nil)
	if err == nil {
		binary.BigEndian.PutUint32(p[1:], 0x1a2a3a4a)
	}
	return p, err
}

// truncated is the begin of a packet. Its length is at random, since servers look at each part.
func (f *Flood) truncated() ([]byte, error) {
	p, err := initial(f.hello, nil)
	if err != nil {
		return nil, err
	}
	cut := noise(2)
	return p[:1+int(binary.BigEndian.Uint16(cut))%(len(p)-1)], nil
}

// oversized is a datagram that the network would cut to pieces.
func (f *Flood) oversized() ([]byte, error) {
	p, err := initial(f.hello, nil)
	return append(p, noise(8<<10)...), err
}

// unknownConnection is a packet of a connection that the listener does not know, which it answers with a reset.
func (f *Flood) unknownConnection() ([]byte, error) {
	p := noise(packetBytes)
	p[0] = p[0]&0x3f | 0x40
	return p, nil
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// Sent reads the counts.
func (f *Flood) Sent() Sent {
	s := Sent{Packets: f.packets.Load(), Retries: f.retries.Load(), Begun: f.begun.Load(), Versions: f.versions.Load()}
	for _, from := range f.sources {
		s.Bytes += from.sent.Load()
		s.Returned += from.got.Load()
		s.Worst = max(s.Worst, float64(from.worst.Load())/1000)
	}
	return s
}
