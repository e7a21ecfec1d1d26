package reactor

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const bestDriver = DriverEpoll

func newPoller(driver string) (poller, error) {
	switch driver {
	case DriverEpoll:
		return newEpoll()
	case DriverGoroutine:
		return newChanPoller(), nil
	default:
		return nil, fmt.Errorf("there is no driver %q", driver)
	}
}

// wakeSlot marks events of the eventfd that wakes the loop.
const wakeSlot = -1

// epoll is a loop's own epoll set, nested in the Go runtime's: the loop's goroutine parks like any other, so no thread blocks in a system
// call.
type epoll struct {
	fd     int
	file   *os.File // keeps fd registered with the runtime
	raw    syscall.RawConn
	event  *os.File // eventfd, edge-triggered, so it never needs to be read; a File, so that a late wake after close does no harm
	ready  [256]unix.EpollEvent
	n      int
	ask    func(fd uintptr) bool // created once, to avoid a closure for each wait
	asking *loop
}

func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// In non-blocking mode, os.NewFile registers it with the runtime's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &epoll{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	p.ask = p.poll
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.close()
		return nil, fmt.Errorf("watch the epoll set: %w", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		p.close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	p.event = os.NewFile(uintptr(event), "eventfd")
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeSlot}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, event, &ev); err != nil {
		p.close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return p, nil
}

func (p *epoll) close() {
	_ = p.file.Close()
	if p.event != nil {
		_ = p.event.Close()
	}
}

func (p *epoll) wake() {
	one := [8]byte{1}
	_, _ = p.event.Write(one[:]) // fails only if the counter is full, and then the loop is awake
}

// poll asks for events without blocking; false parks the goroutine until the set is ready.
func (p *epoll) poll(fd uintptr) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&p.ready[0])), uintptr(len(p.ready)), 0, 0, 0)
	if e != 0 {
		n = 0 // only EINTR is possible
	}
	p.n = int(n)
	return p.n > 0 || p.asking.hasWork()
}

func (p *epoll) wait(l *loop) error {
	p.asking = l
	if err := p.raw.Read(p.ask); err != nil {
		return fmt.Errorf("wait for the epoll set: %w", err)
	}
	l.parked.Store(false)
	l.events = p.n
	for i := range p.n {
		ev := &p.ready[i]
		if ev.Fd == wakeSlot {
			continue
		}
		if c := l.lookup(ev.Fd, ev.Pad); c != nil {
			p.handle(l, c, ev.Events)
		}
	}
	return nil
}

// handle handles an event. The connection may be finished after each step.
func (p *epoll) handle(l *loop, c *Conn, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		c.mu.Lock()
		c.flush()
		empty := c.out == nil && c.state&dead == 0
		c.watch()
		c.mu.Unlock()
		if empty {
			c.flushed()
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return
	}
	c.mu.Lock()
	gone, reads, resumes := c.state&finished != 0, c.wantsInput(), c.state&resuming != 0
	if !reads && !resumes {
		c.state |= stalled
		c.watch() // paused: stop watching only now, because most pauses end before input arrives
	}
	c.mu.Unlock()
	switch {
	case gone: // its descriptor may belong to another connection by now
	case resumes: // before anything else it gets what was kept
	case reads:
		p.read(l, c)
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0: // reported even if they were not requested
		p.hungUp(c)
	}
}

// hungUp handles the news that the peer of a connection from which nothing is read now is gone. Its last bytes are read when the pause ends. Until
// then the connection leaves the set, which would report the same again and again.
func (p *epoll) hungUp(c *Conn) {
	err := socketError(int(c.fd))
	c.mu.Lock()
	if c.state&(ended|dead) != 0 {
		c.mu.Unlock()
		c.finish(err)
		return
	}
	defer c.mu.Unlock()
	c.cut(err)
	if e := p.forget(c); e != nil {
		c.die(e)
	}
}

// forget stops watching a connection. c.mu is held.
func (p *epoll) forget(c *Conn) error {
	if c.state&attached == 0 {
		return nil
	}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(c.fd), nil); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	c.state &^= attached
	return nil
}

func (p *epoll) read(l *loop, c *Conn) {
	b := l.buf.raw[headroom:]
	n, e := receive(c.fd, b)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
	case e != 0:
		c.inputEnded(os.NewSyscallError("recv", e))
	case n == 0:
		c.inputEnded(errEOF)
	default:
		c.receive(&l.buf, n)
	}
}

// interest returns the epoll mask for the events that c needs. c.mu is held.
func interest(c *Conn) uint32 {
	var m uint32
	if c.wantsInput() {
		m = unix.EPOLLIN
	}
	if c.wantsOutput() {
		m |= unix.EPOLLOUT
	}
	return m
}

func (p *epoll) attach(c *Conn) error { return p.control(c, unix.EPOLL_CTL_ADD, interest(c)) }

func (p *epoll) update(c *Conn) error {
	m := interest(c)
	if m == c.mask {
		return nil
	}
	return p.control(c, unix.EPOLL_CTL_MOD, m)
}

func (p *epoll) control(c *Conn, op int, mask uint32) error {
	ev := unix.EpollEvent{Events: mask, Fd: c.slot, Pad: c.gen}
	if err := unix.EpollCtl(p.fd, op, int(c.fd), &ev); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	c.mask = mask
	return nil
}

// detach closes the descriptor, which also removes it from the set, because it was never duplicated after it was added.
func (p *epoll) detach(c *Conn) {
	if c.fd >= 0 {
		_ = unix.Close(int(c.fd))
	}
}

func (p *epoll) release(c *Conn) (net.Conn, error) {
	if err := p.forget(c); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(c.fd), "")
	c.fd = -1
	nc, err := net.FileConn(f) // a duplicate
	_ = f.Close()              // the duplicate keeps the socket
	if err != nil {
		return nil, fmt.Errorf("release a connection: %w", err)
	}
	return nc, nil
}

// socketError returns the error of a socket that has reported one.
func socketError(fd int) error {
	if e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && e != 0 {
		return os.NewSyscallError("read", syscall.Errno(e))
	}
	return errEOF
}
