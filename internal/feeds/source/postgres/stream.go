package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"godwit.dev/godwit/internal/feeds/source"
)

const (
	askEvery   = 200 * time.Millisecond // the server says how far its log is, so that the slot moves while others write
	askSoon    = 25 * time.Millisecond  // the same while its log grows fast
	askFast    = 1 << 20                // bytes between two answers from which on it does
	silentMost = 30 * time.Second       // without a word the connection is given up
	noteEvery  = 2 * time.Second        // while no entries come
	noteBusy   = 30 * time.Second       // while they do
	watchEvery = 2 * time.Second

	lotEntries   = 200     // entries of a commit that are handed on together
	mostEntries  = 1_000   // stored together
	queueEntries = 4_000   // that wait to be stored; the server waits when there are more
	queueBytes   = 8 << 20 // the same, of their texts
)

// stream reads the log until ctx ends or the connection is lost.
func (f *feed) stream(ctx context.Context, to source.Emitter) error {
	if err := f.start(ctx); err != nil {
		return err
	}
	hijacked, err := f.c.Hijack()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	s := &stream{feed: f, to: to, net: hijacked, q: newQueue(), relations: make(map[uint32]*rows), heard: new(atomic.Int64), grown: make(chan struct{}, 1)}
	stop := context.AfterFunc(ctx, func() { _ = hijacked.Conn.Close() })
	defer func() {
		end(nil)
		stop()
		_ = hijacked.Conn.Close()
		wg.Wait()
	}()
	s.confirmed.Store(uint64(f.at.LSN))
	s.grownAt.Store(uint64(f.at.LSN) + quiet.after)
	s.heard.Store(time.Now().UnixNano())
	to.Caught(ctx)
	wg.Go(func() { end(s.receive(ctx)) })
	wg.Go(func() { end(s.keepAlive(ctx)) })
	wg.Go(func() { end(s.look(ctx)) })
	wg.Go(func() { end(s.logRunning(ctx)) })
	err = s.emit(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return explain(err)
}

// start begins the replication.
func (f *feed) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	f.c.Frontend().SendQuery(&pgproto3.Query{String: fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names %s, messages 'true')",
		quoted(f.slot), literal(quoted(f.publication)))})
	if err := f.c.Frontend().Flush(); err != nil {
		return err
	}
	for {
		m, err := f.c.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			err := error(pgconn.ErrorResponseToPgError(m))
			if coded(err, codeInUse) {
				return fmt.Errorf("the replication slot %s is in use: another server or source reads it (%w)", f.slot, err)
			}
			if coded(err, codeNotReady) {
				return f.lost("cannot be read (" + m.Message + ")")
			}
			return needs(err, replicates)
		}
	}
}

// stream is a replication under way.
type stream struct {
	*feed
	to  source.Emitter
	net *pgconn.HijackedConn
	q   *queue

	writing   sync.Mutex
	confirmed atomic.Uint64
	ahead     atomic.Uint64 // the end of the server's log, as it last said
	grown     chan struct{} // has room for one: ahead has reached grownAt
	grownAt   atomic.Uint64
	heard     *atomic.Int64
	oldest    atomic.Int64 // when the oldest commit that waits was made, as UnixNano; 0: none waits

	// of the receiver
	relations map[uint32]*rows
	commit    *commit // nil: between two
}

// commit is a transaction that is being read.
type commit struct {
	lsn   LSN
	at    time.Time
	xid   uint32
	n     int    // its changes so far
	id    string // what the ids of its entries begin with
	lot   []source.Entry
	bytes int
}

// receive reads what the server sends, until the connection ends.
func (s *stream) receive(ctx context.Context) error {
	var c change
	for {
		m, err := s.net.Frontend.Receive()
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		s.heard.Store(time.Now().UnixNano())
		switch m := m.(type) {
		case *pgproto3.CopyData:
			if err := s.take(ctx, m.Data, &c); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyDone:
			return errors.New("PostgreSQL ended the replication")
		}
	}
}

// Kinds of messages within the replication (PostgreSQL, section 55.4).
const (
	ofLog       = 'w'
	ofKeepalive = 'k'
	ofStatus    = 'r'
)

func (s *stream) take(ctx context.Context, b []byte, c *change) error {
	r := &reader{b: b}
	switch r.byte() {
	case ofKeepalive:
		end := LSN(r.uint64())
		r.uint64() // the server's clock
		asked := r.byte() == 1
		if r.torn {
			return errTorn
		}
		s.reaches(uint64(end))
		if s.commit == nil {
			if err := s.q.put(ctx, item{end: end}); err != nil {
				return err
			}
		}
		if asked {
			return s.status(false)
		}
	case ofLog:
		start := LSN(r.uint64())
		end := r.uint64()
		r.uint64()
		if r.torn {
			return errTorn
		}
		s.reaches(max(s.ahead.Load(), end))
		if err := decode(r.b, c); err != nil {
			return err
		}
		return s.change(ctx, c, start)
	}
	return nil
}

// reaches notes how far the server's log is.
func (s *stream) reaches(end uint64) {
	s.ahead.Store(end)
	if end >= s.grownAt.Load() {
		wake(s.grown)
	}
}

// change turns one change into entries.
func (s *stream) change(ctx context.Context, c *change, start LSN) error {
	switch c.kind {
	case aBegin:
		s.commit = &commit{lsn: c.lsn, at: c.at, xid: c.xid}
		return nil
	case aRelation:
		return s.relate(ctx, c.rel)
	case aCommit:
		return s.endCommit(ctx, c.end)
	case aMessage, anInsert, anUpdate, aDelete, aTruncate:
	default: // types and origins come once a connection: ids must not count them
		return nil
	}
	alone := s.commit == nil // a message that is no part of a transaction
	if alone {
		if c.kind != aMessage {
			return fmt.Errorf("%w: a change outside of a transaction", errTorn)
		}
		s.commit = &commit{lsn: c.lsn, at: time.Now()}
	}
	now := s.commit
	now.n++
	switch c.kind {
	case aMessage:
		if c.prefix == "godwit."+s.t.App {
			e := s.entry(start)
			e.Body = bytes.Clone(c.content)
			now.add(e)
		}
	case aTruncate:
		if err := s.truncate(ctx, c); err != nil {
			return err
		}
	case anInsert, anUpdate, aDelete:
		if m := s.relations[c.table]; m != nil {
			for i, e := range m.entry(c, s.entry(start)) {
				if i > 0 {
					e.ID += "." + strconv.Itoa(i)
				}
				now.add(e)
			}
		}
	}
	switch {
	case alone:
		return s.endCommit(ctx, 0)
	case len(now.lot) > lotEntries || now.bytes > queueBytes/2 && len(now.lot) > 1:
		lot := now.lot[: len(now.lot)-1 : len(now.lot)-1]
		now.lot, now.bytes = now.lot[len(now.lot)-1:], 0 // the last one stays, as the end of the commit may follow
		return s.q.put(ctx, item{entries: lot, at: now.at})
	}
	return nil
}

func (now *commit) add(e source.Entry) {
	now.lot = append(now.lot, e)
	now.bytes += len(e.Body) + len(e.Text)
}

// entry makes an entry of the commit that is being read.
func (s *stream) entry(start LSN) source.Entry {
	now := s.commit
	if now.id == "" {
		// A position alone may occur twice: another server that takes over without the last commits writes others in their place.
		b := append([]byte(s.at.System), 0)
		b = binary.BigEndian.AppendUint64(b, uint64(now.lsn))
		b = binary.BigEndian.AppendUint64(b, uint64(now.at.UnixMicro())) // any number will do
		b = binary.BigEndian.AppendUint32(b, now.xid)
		if now.xid == 0 { // no transaction: it has no time of its own
			b = binary.BigEndian.AppendUint64(append([]byte(s.at.System), 0), uint64(now.lsn))
		}
		sum := sha256.Sum256(b)
		now.id = "pg-" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "-"
	}
	return source.Entry{From: start.String(), ID: now.id + strconv.Itoa(now.n), Version: s.at.version(now.lsn)}
}

func (s *stream) endCommit(ctx context.Context, end LSN) error {
	now := s.commit
	s.commit = nil
	if n := len(now.lot); n > 0 {
		now.lot[n-1].Last = true
	}
	return s.q.put(ctx, item{entries: now.lot, end: end, at: now.at})
}

// relate finds what the rows of a table become.
func (s *stream) relate(ctx context.Context, rel *relation) error {
	delete(s.relations, rel.id)
	for i := range s.tables {
		t := &s.tables[i]
		if schema, name := t.names(); schema == rel.schema && name == rel.name {
			if err := s.resolve(ctx, rel); err != nil {
				return err
			}
			m := mapped(t, rel)
			s.relations[rel.id] = m
			if m.err != nil {
				s.to.Detail(m.err.Error() + ": its changes go into quarantine")
			}
		}
	}
	return nil
}

// truncate makes the objects of truncated tables unknown.
func (s *stream) truncate(ctx context.Context, c *change) error {
	for _, id := range c.rels {
		m := s.relations[id]
		if m == nil || m.Object == "" {
			continue
		}
		if m.column(m.Group) >= 0 {
			e := s.entry(s.commit.lsn)
			e.Wrong, e.Text = fmt.Errorf("the table %s was truncated, and which objects that were is not known: delete its rows instead", m.full()), []byte("TRUNCATE")
			s.commit.add(e)
			continue
		}
		lot := s.commit.lot
		s.commit.lot = nil
		if err := s.q.put(ctx, item{entries: lot, at: s.commit.at, unknown: m.Group, below: s.at.version(s.commit.lsn)}); err != nil {
			return err
		}
	}
	return nil
}

// status tells the server what is stored. asks is set to be told how far its log is.
func (s *stream) status(asks bool) error {
	b := make([]byte, 0, 34)
	b = append(b, ofStatus)
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, s.confirmed.Load())
	}
	b = binary.BigEndian.AppendUint64(b, uint64(time.Since(epoch).Microseconds())) // it is later
	if asks {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.net.Conn.SetWriteDeadline(time.Now().Add(silentMost)) // fails only if the connection is closed, which Flush says
	s.net.Frontend.Send(&pgproto3.CopyData{Data: b})
	if err := s.net.Frontend.Flush(); err != nil {
		return fmt.Errorf("confirm what is stored: %w", err)
	}
	return nil
}

// keepAlive asks the server for the end of its log several times a second, more often while that grows fast, and gives up if it says nothing.
func (s *stream) keepAlive(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for before := s.ahead.Load(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if time.Since(time.Unix(0, s.heard.Load())) > silentMost && !s.q.full() {
			return errSilent
		}
		now := s.ahead.Load()
		tick.Reset(askAgain(now - before))
		before = now
		if err := s.status(true); err != nil {
			return err
		}
		s.reportLag()   // it grows also while nothing can be stored
		if s.q.full() { // the receiver waits: it hears nothing
			s.heard.Store(time.Now().UnixNano())
		}
	}
}

// askAgain returns when to ask again, by how much the log has grown since the last time.
func askAgain(grown uint64) time.Duration {
	if grown >= askFast {
		return askSoon
	}
	return askEvery
}

// look checks over a second connection that the slot and the publication are there.
func (s *stream) look(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var c *conn
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if c == nil || c.IsClosed() {
			var err error
			if c, err = connect(ctx, s.t, false); err != nil {
				c = nil
				continue // as long as the log can be read, it is
			}
		}
		if err := s.watch(ctx, c); err != nil && !c.IsClosed() {
			return err
		}
	}
}
