package cli

import (
	"bytes"
	"os"
	"os/signal"
	"syscall"

	"godwit.dev/godwit/internal/server/app/logs"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/logqueue"
)

// outliveReaders keeps this process alive when the reader of its output goes away: journald restarts, or the logger at the
// other end of a pipe dies. Without it the next line would cause a SIGPIPE, which ends the process. It stays in effect
// until the process ends, since a stop logs too. The signal is caught instead of ignored, because child processes inherit
// ignored signals.
//
// Only the server calls it. Other commands end with their reader, as Unix tools do.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// unblockOutput makes a server's output pass through queues from now on, so that a stalled reader holds up neither requests nor a stop. The
// queues are flushed when the process ends. It returns a function that counts the lost lines.
func (p *program) unblockOutput(c *config.Config) (dropped func() uint64) {
	logs := logqueue.New(p.stderr, func(lost uint64) []byte {
		var line bytes.Buffer
		logs.New(c, &line).Warn("lines of the log were lost: its reader did not keep up", "lines", lost)
		return line.Bytes()
	})
	out := logqueue.New(p.stdout, nil)
	p.stderr, p.stdout = logs, out
	p.flush = append(p.flush, out.Close, logs.Close)
	return func() uint64 { return logs.Dropped() + out.Dropped() }
}
