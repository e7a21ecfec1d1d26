package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Proxy carries connections to a server and breaks them where a test wants: at a COMMIT or at its answer. It parses only
// the framing of messages: a letter, a length and a body.
type Proxy struct {
	dir string

	mu      sync.Mutex
	to      *Server
	links   map[*link]struct{}
	answers int           // of so many commits the answers are still to be lost
	commits int           // so many commits are still to be lost
	next    *Server       // server of all connections once an answer was lost; nil: the same one
	hold    chan struct{} // closing it lets a held commit go on; nil: none is held
	went    chan struct{} // closed: it has been answered
}

// link is one connection.
type link struct {
	client, server net.Conn
}

// NewProxy listens for clients of the server that all tests of this test binary share.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	return sharedServer(t).Proxy(t)
}

// Proxy listens for clients of the server, until the test ends.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(s.Socket())), "gwpx") // where paths are short
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{dir: dir, to: s, links: make(map[*link]struct{})}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, filepath.Base(s.Socket())))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		serving.Wait()
		os.RemoveAll(dir)
	})
	return p
}

// URL is the database of the server by way of the proxy.
func (p *Proxy) URL() string {
	return "postgres:///postgres?user=postgres&sslmode=disable&host=" + p.dir
}

// LoseAnswers drops the answers to the next commits, which do reach the server.
func (p *Proxy) LoseAnswers(commits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = commits
}

// LoseCommits has the next commits not reach the server.
func (p *Proxy) LoseCommits(commits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = commits
}

// FailOver loses the answer of the next commit, and all connections, and leads new ones to another server.
func (p *Proxy) FailOver(to *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers, p.next = 1, to
}

// HoldCommit cuts the connection of the next commit and keeps it, with all that was sent together with it, until release is called,
// which returns when the server has done or refused it.
func (p *Proxy) HoldCommit() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.went = make(chan struct{}), make(chan struct{})
	hold, went := p.hold, p.went
	return func() {
		close(hold)
		<-went
	}
}

func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.client.Close()
		l.server.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "unix", p.to.Socket())
	if err != nil {
		p.mu.Unlock()
		return
	}
	l := &link{client: client, server: server}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var answering sync.WaitGroup
	answering.Go(func() { p.carryAnswers(l) })
	p.carryQuestions(l, &answering)
	server.Close()
	answering.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// carryQuestions carries a client's messages, in the groups that the server handles together.
func (p *Proxy) carryQuestions(l *link, answering *sync.WaitGroup) {
	r := bufio.NewReader(l.client)
	first, err := readBody(r, nil)
	if err != nil {
		return
	}
	if _, err := l.server.Write(first); err != nil {
		return
	}
	commits := map[string]bool{} // names of statements
	var group []byte
	for isCommit := false; ; {
		message, err := readMessage(r)
		if err != nil {
			return
		}
		group = append(group, message...)
		words := bytes.Split(message[5:], []byte{0})
		switch message[0] {
		case 'P': // parse: a name, then SQL
			commits[string(words[0])] = strings.EqualFold(string(words[1]), "commit")
			continue
		case 'B': // bind: a portal, then a name
			isCommit = isCommit || commits[string(words[1])]
			continue
		case 'Q':
			isCommit = strings.EqualFold(string(words[0]), "commit")
		case 'S', 'H', 'X': // sync, flush, terminate
		default:
			continue
		}
		if isCommit {
			lost, hold, went := p.takeCommit()
			if lost {
				l.client.Close()
				return
			}
			if hold != nil {
				l.client.Close()
				<-hold
				_, _ = l.server.Write(append(group, 'X', 0, 0, 0, 4)) // after which the server ends the connection
				answering.Wait()
				close(went)
				return
			}
		}
		if _, err := l.server.Write(group); err != nil {
			return
		}
		group, isCommit = group[:0], false
	}
}

func (p *Proxy) takeCommit() (lost bool, hold, went chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commits > 0 {
		p.commits--
		return true, nil, nil
	}
	hold, went = p.hold, p.went
	p.hold, p.went = nil, nil
	return false, hold, went
}

// carryAnswers carries what the server sends, once it is ready for more.
func (p *Proxy) carryAnswers(l *link) {
	defer l.client.Close()
	r := bufio.NewReader(l.server)
	var group []byte
	for committed := false; ; {
		message, err := readMessage(r)
		group = append(group, message...)
		if err != nil {
			_, _ = l.client.Write(group)
			return
		}
		committed = committed || message[0] == 'C' && string(message[5:]) == "COMMIT\x00"
		if message[0] != 'Z' {
			continue
		}
		if committed && p.takeAnswer() {
			l.server.Close()
			return
		}
		_, _ = l.client.Write(group) // even if the client is gone
		group, committed = group[:0], false
	}
}

func (p *Proxy) takeAnswer() bool {
	p.mu.Lock()
	if p.answers == 0 {
		p.mu.Unlock()
		return false
	}
	p.answers--
	over := p.next
	if over != nil {
		p.to, p.next = over, nil
	}
	p.mu.Unlock()
	if over != nil {
		p.cut()
	}
	return true
}

func readMessage(r *bufio.Reader) ([]byte, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	return readBody(r, []byte{kind})
}

// readBody appends a length, which includes itself, and as many bytes.
func readBody(r *bufio.Reader, to []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	to = append(to, length[:]...)
	body := make([]byte, binary.BigEndian.Uint32(length[:])-4)
	_, err := io.ReadFull(r, body)
	return append(to, body...), err
}
