package cli_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
)

// dyingBroker stands in for a Mosquitto that crashes: it implements the part of MQTT at QoS 1 that bench uses, and exits after the number
// of publishes set in the environment.
func dyingBroker() {
	b := dyer{subscribers: map[string]net.Conn{}, names: map[string]net.Conn{}}
	var err error
	if b.left, err = strconv.Atoi(os.Getenv("PUBLISHES")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config, _ := os.ReadFile(os.Args[2])
	port := regexp.MustCompile(`listener (\d+)`).FindSubmatch(config)
	ln, err := net.Listen("tcp", "127.0.0.1:"+string(port[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			os.Exit(2)
		}
		go b.serve(conn)
	}
}

type dyer struct {
	mu          sync.Mutex
	subscribers map[string]net.Conn // by topic
	names       map[string]net.Conn
	left        int
}

func (b *dyer) serve(conn net.Conn) {
	for in := bufio.NewReader(conn); ; {
		first, err := in.ReadByte()
		if err != nil {
			return
		}
		size, err := binary.ReadUvarint(in) // the same as MQTT's lengths
		if err != nil {
			return
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		b.packet(conn, first, body)
	}
}

func (b *dyer) packet(conn net.Conn, first byte, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	topic := func(b []byte) (string, []byte) {
		n := 2 + int(binary.BigEndian.Uint16(b))
		return string(b[2:n]), b[n:]
	}
	switch first & 0xf0 {
	case 0x10: // CONNECT: a new connection replaces the former one of the same client name
		name, _ := topic(body[10:])
		if former := b.names[name]; former != nil {
			former.Close()
		}
		b.names[name] = conn
		conn.Write([]byte{0x20, 2, 0, 0})
	case 0x80: // SUBSCRIBE
		name, _ := topic(body[2:])
		b.subscribers[name] = conn
		conn.Write([]byte{0x90, 4, body[0], body[1], 1, 1})
	case 0x30: // PUBLISH
		if b.left--; b.left < 0 {
			fmt.Fprintln(os.Stderr, "out of breath")
			os.Exit(3)
		}
		to, rest := topic(body)
		b.subscribers[to].Write(append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...))
		conn.Write([]byte{0x40, 2, rest[0], rest[1]})
	}
}
