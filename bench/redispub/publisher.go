package redispub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// redirections is the number of times that a cluster may redirect a command before it fails.
const redirections = 5

// Publisher writes entries to a Redis server or cluster, for one caller at a time.
type Publisher struct {
	Shards int           // of the keys
	Expire time.Duration // expiry of a stream, renewed by each entry

	seeds []string
	conns map[string]*Conn  // by address
	homes map[string]string // known node addresses by hash tag
}

// NewPublisher returns a publisher for the server at one of these addresses, or for its cluster.
func NewPublisher(seeds []string, shards int) *Publisher {
	return &Publisher{Shards: shards, Expire: time.Hour, seeds: seeds, conns: make(map[string]*Conn), homes: make(map[string]string)}
}

// Close ends its connections.
func (p *Publisher) Close() {
	for addr, c := range p.conns {
		c.Close()
		delete(p.conns, addr)
	}
	clear(p.homes)
}

// Publish appends an entry to a client's stream and returns the id that Redis assigned. After an error, Redis may have stored the entry or
// not.
func (p *Publisher) Publish(ctx context.Context, client string, e *Entry) (id string, err error) {
	return p.Append(ctx, client, "*", e.Fields())
}

// Append is Publish for any fields, with an id chosen by the caller.
func (p *Publisher) Append(ctx context.Context, client, id string, fields []string) (string, error) {
	key := Key(client, p.Shards)
	answers, err := p.On(ctx, key,
		[]string{"MULTI"}, append([]string{"XADD", key, id}, fields...),
		[]string{"EXPIRE", key, strconv.Itoa(int(p.Expire.Seconds()))}, []string{"EXEC"})
	if err != nil {
		return "", fmt.Errorf("publish to %s: %w", key, err)
	}
	done, ok := answers[3].([]any)
	if !ok || len(done) != 2 {
		return "", fmt.Errorf("publish to %s: EXEC answers %v", key, answers)
	}
	if refused, ok := done[0].(Refusal); ok {
		return "", fmt.Errorf("publish to %s: %w", key, refused)
	}
	given, _ := done[0].(string)
	return given, nil
}

// Do runs one command on the server that holds a key.
func (p *Publisher) Do(ctx context.Context, key string, args ...string) (any, error) {
	answers, err := p.On(ctx, key, args)
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// On runs commands on the server that holds a key. It returns an error if the server refuses a command.
func (p *Publisher) On(ctx context.Context, key string, commands ...[]string) ([]any, error) {
	addr := p.homes[tag(key)]
	var refused Refusal
	for range redirections {
		c, at, err := p.conn(ctx, addr)
		if err != nil {
			return nil, err
		}
		answers, err := c.Pipe(commands...)
		if err != nil { // the connection cannot be used again: late answers may still arrive over it
			c.Close()
			delete(p.conns, at)
			delete(p.homes, tag(key))
			return nil, err
		}
		refused = refusal(answers)
		if refused == "" {
			p.homes[tag(key)] = at
			return answers, nil
		}
		moved, ok := strings.CutPrefix(string(refused), "MOVED ")
		if !ok {
			break
		}
		_, addr, _ = strings.Cut(moved, " ")
	}
	delete(p.homes, tag(key))
	return nil, refused
}

// refusal returns the most important refusal among answers: a redirection, or else the first error.
func refusal(answers []any) (first Refusal) {
	for _, a := range answers {
		r, ok := a.(Refusal)
		if ok && strings.HasPrefix(string(r), "MOVED ") {
			return r
		}
		if ok && first == "" {
			first = r
		}
	}
	return first
}

// conn returns a connection to the server at addr, or to any server if addr is empty.
func (p *Publisher) conn(ctx context.Context, addr string) (c *Conn, at string, err error) {
	try := p.seeds
	if addr != "" {
		try = []string{addr}
	}
	err = errors.New("no address of Redis is known")
	for _, at := range try {
		if c := p.conns[at]; c != nil {
			return c, at, nil
		}
		if c, err = Dial(ctx, at); err == nil {
			p.conns[at] = c
			return c, at, nil
		}
	}
	return nil, "", err
}
