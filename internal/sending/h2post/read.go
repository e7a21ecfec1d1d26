package h2post

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"godwit.dev/godwit/internal/sending/foreign"
)

func (c *conn) readLoop() {
	defer c.nc.Close()
	for {
		f, err := c.fr.ReadFrame()
		if err == nil {
			err = c.handle(f)
		}
		var bad http2.StreamError
		if errors.As(err, &bad) {
			c.refuse(bad)
			continue
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// refuse ends one message whose answer breaks the protocol.
func (c *conn) refuse(bad http2.StreamError) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if s := c.streams[bad.StreamID]; s != nil {
		c.queueControl(appendReset(nil, s.id, codeProtocol))
		c.end(s, bad)
	}
}

func (c *conn) handle(f http2.Frame) error {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.dead != nil {
		return c.dead
	}
	c.heard, c.pinged = time.Now(), false
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.RSTStreamFrame:
		c.reset(f)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.settings(f)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			c.queueControl(appendPing(nil, true, f.Data))
		}
	case *http2.WindowUpdateFrame:
		return c.widen(f)
	case *http2.GoAwayFrame:
		c.goAway(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol) // we have disabled server push
	}
	return nil
}

// queueControl queues a control frame for writing. It ends the connection of a server that causes too many of these frames without reading
// them.
func (c *conn) queueControl(frame []byte) {
	if c.dead != nil {
		return
	}
	if len(c.control)+len(frame) > maxControl {
		c.die(foreign.Own("the server asks for answers that it does not read"))
		return
	}
	c.control = append(c.control, frame...)
	c.kick()
}

// headers handles an answer's headers or trailers.
func (c *conn) headers(f *http2.MetaHeadersFrame) error {
	if f.StreamID >= c.nextID || f.StreamID%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return nil // abandoned
	}
	if s.answer.Status == 0 {
		status, err := strconv.Atoi(f.PseudoValue("status"))
		if err != nil || status < 100 || status > 999 || f.Truncated || status < 200 && f.StreamEnded() {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol, Cause: errNoStatus}
		}
		if status < 200 {
			return nil // an informational answer: the final one follows
		}
		if s.answer.Status = status; status >= 300 {
			s.answer.Header = make(http.Header)
			for _, field := range f.RegularFields() {
				s.answer.Header.Add(field.Name, field.Value)
			}
		}
	}
	if f.StreamEnded() {
		c.end(s, nil)
	}
	return nil
}

// data handles a part of an answer's body, and returns as many bytes to the server's window.
func (c *conn) data(f *http2.DataFrame) error {
	if c.uncredited += int(f.Length); c.uncredited >= 1<<15 {
		c.queueControl(appendWindow(nil, 0, uint32(c.uncredited))) // below 2^16
		c.uncredited = 0
	}
	s := c.streams[f.StreamID]
	switch {
	case s == nil:
		return nil
	case s.answer.Status == 0:
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol, Cause: errNoStatus}
	}
	part := f.Data()
	s.answer.Body = append(s.answer.Body, part[:min(len(part), maxAnswer-len(s.answer.Body))]...)
	switch {
	case f.StreamEnded():
		c.end(s, nil)
	case len(s.answer.Body) == maxAnswer: // the rest says nothing
		c.queueControl(appendReset(nil, s.id, codeCancel))
		c.end(s, nil)
	}
	return nil
}

func (c *conn) reset(f *http2.RSTStreamFrame) {
	s := c.streams[f.StreamID]
	if s == nil {
		return
	}
	if f.ErrCode == http2.ErrCodeRefusedStream {
		c.endUnseen(s, errRefused)
		return
	}
	c.end(s, foreign.Own(fmt.Sprintf("the server broke it off: %s", f.ErrCode)))
}

// settings applies and acknowledges the server's settings. They may allow more messages than before.
func (c *conn) settings(f *http2.SettingsFrame) error {
	if err := c.adopt(f); err != nil {
		return err
	}
	c.queueControl(appendSettingsAck(nil))
	c.h.wakeAll()
	return nil
}

// adopt applies the server's settings.
func (c *conn) adopt(f *http2.SettingsFrame) error {
	if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		c.maxStreams = int(min(v, math.MaxInt32))
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		if v > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.streamWindow = int64(v)
	}
	if v, ok := f.Value(http2.SettingHeaderTableSize); ok {
		c.table = min(v, tableBytes)
	}
	return nil
}

// widen raises the connection's send window. A message is sent only if its stream's window fits it whole.
func (c *conn) widen(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		return nil
	}
	if c.window += int64(f.Increment); c.window > math.MaxInt32 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.h.wakeAll()
	return nil
}

// goAway lets the messages finish that the server has begun to process, and marks the others as certainly not processed.
func (c *conn) goAway(f *http2.GoAwayFrame) {
	c.draining = true
	if debug := f.DebugData(); c.bye == nil || len(debug) > 0 {
		c.bye = &GoAwayError{Code: f.ErrCode, Said: string(debug[:min(len(debug), maxFarewell)])}
	}
	for id, s := range c.streams {
		if id > f.LastStreamID {
			c.endUnseen(s, c.bye)
		}
	}
	for _, s := range c.pending {
		c.endUnseen(s, c.bye)
	}
	if c.active == 0 {
		c.die(errClosed)
	}
	c.h.wakeAll()
}
