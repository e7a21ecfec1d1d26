package http2

import "encoding/binary"

func (c *Conn) settings(flags byte, id uint32, p []byte) error {
	switch {
	case id != 0:
		return &ConnError{ProtocolError, "SETTINGS on a stream"}
	case flags&flagAck != 0 && len(p) != 0:
		return &ConnError{FrameSize, "SETTINGS acknowledgement with a payload"}
	case flags&flagAck != 0:
		return c.settingsAck()
	case len(p)%6 != 0:
		return &ConnError{FrameSize, "SETTINGS has a wrong size"}
	}
	if err := c.spend(20 + int32(len(p)/6)); err != nil {
		return err
	}
	c.mu.Lock()
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	c.control(func(b []byte) []byte { return appendFrameHead(b, 0, frameSettings, flagAck, 0) })
	c.mu.Unlock()
	c.flushAll()
	return nil
}

func (c *Conn) setting(id uint16, v uint32) error {
	switch id {
	case settingEnablePush:
		if v > 1 {
			return &ConnError{ProtocolError, "ENABLE_PUSH must be 0 or 1"}
		}
	case settingWindow:
		if v > maxWindow {
			return &ConnError{FlowControl, "INITIAL_WINDOW_SIZE is too large"}
		}
		for s := c.streams; s != nil; s = s.next {
			win := int64(s.sendWin) + int64(v) - int64(c.initWin)
			if win > maxWindow {
				return &ConnError{FlowControl, "INITIAL_WINDOW_SIZE overflows a stream's window"}
			}
			s.sendWin = int32(win)
		}
		c.initWin = int32(v)
	case settingMaxFrame:
		if v < maxFrameSize || v > 1<<24-1 {
			return &ConnError{ProtocolError, "MAX_FRAME_SIZE is out of range"}
		}
		// The value is not used: larger frames save nothing here, and smaller ones interleave better.
	}
	return nil
}

// settingsAck removes the header table when the client may no longer use it.
func (c *Conn) settingsAck() error {
	c.mu.Lock()
	first := c.flags&connAcked == 0
	c.flags |= connAcked
	if first && c.lastID == 0 { // the peer supports HTTP/2: from now on the connection may be idle, because clients keep connections for later
		c.checkAt = now().add(c.srv.cfg.KeepAlive)
	}
	shrunk := !first && c.flags&connShrinking != 0
	c.mu.Unlock()
	switch {
	case shrunk && c.in != nil && c.in.dec != nil:
		c.in.dec.free()
		c.in = nil // input holds no incomplete header block, because this frame would have interrupted it
	case !first:
		return c.spend(1)
	}
	return nil
}

// shrinkTable asks the client to use no header table: gRPC connections stay open, and a table would be most of the cost of an idle one.
// Other connections are short and keep their table.
func (c *Conn) shrinkTable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flags&connShrinking != 0 {
		return
	}
	c.flags |= connShrinking
	c.control(func(b []byte) []byte {
		return appendSetting(appendFrameHead(b, 6, frameSettings, 0, 0), settingHeaderTable, 0)
	})
}
