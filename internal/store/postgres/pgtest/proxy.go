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

// Proxy forwards connections to a server and breaks them where a test wants: at a COMMIT or at its answer. It parses only the framing of
// messages: a letter, a length and a body.
type Proxy struct {
	dir string

	mu      sync.Mutex
	to      *Server
	links   map[*link]struct{}
	answers int           // how many more commits lose their answers
	commits int           // how many more commits are lost
	next    *Server       // the server for all new connections once an answer was lost; nil: the same server
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

// URL returns the address of the server's database through the proxy.
func (p *Proxy) URL() string {
	return "postgres:///postgres?user=postgres&sslmode=disable&host=" + p.dir
}

// LoseAnswers drops the answers to that many following commits, which do reach the server.
func (p *Proxy) LoseAnswers(commits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = commits
}

// LoseCommits drops that many following commits before they reach the server.
func (p *Proxy) LoseCommits(commits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = commits
}

// FailOver drops the answer of the next commit and closes all connections. New connections go to the other server.
func (p *Proxy) FailOver(to *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers, p.next = 1, to
}

// HoldCommit closes the client's connection at the next commit, and holds the commit back with everything sent together with it until
// release is called. release returns when the server has executed or refused the commit.
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

// carryQuestions forwards a client's messages, in the groups that the server handles together.
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
				_, _ = l.server.Write(append(group, 'X', 0, 0, 0, 4)) // 'X' makes the server end the connection
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

// carryAnswers forwards the server's messages, up to each message that reports the server ready for more.
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
		_, _ = l.client.Write(group) // the error does not matter: the client may be gone
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

// readBody appends a message's length, which counts itself, and its body.
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
