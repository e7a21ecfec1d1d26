package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do executes a command, whose words are separated by spaces, and returns the answer as text; of a list, one line per element. An error
// answer of Redis is returned as an error.
func (s *Server) Do(command string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("%s was not answered in %s", command, patience))
	defer cancel()
	answer, err := s.ask(ctx, command)
	if err != nil {
		return "", fmt.Errorf("%s at Redis: %w", command, err)
	}
	return answer, nil
}

func (s *Server) ask(ctx context.Context, command string) (string, error) {
	var to net.Dialer
	c, err := to.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if soon := time.Now().Add(5 * time.Second); soon.Before(deadline) {
		deadline = soon
	}
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	var b strings.Builder
	err = answer(bufio.NewReader(c), &b)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// answer reads one value of RESP2 as lines.
func answer(r *bufio.Reader, to *strings.Builder) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return fmt.Errorf("an empty line is no answer")
	}
	switch rest := line[1:]; line[0] {
	case '-':
		return fmt.Errorf("refused: %s", rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		to.Write(b[:n])
		to.WriteByte('\n')
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		for range n {
			if err := answer(r, to); err != nil {
				return err
			}
		}
	default:
		to.WriteString(rest)
		to.WriteByte('\n')
	}
	return nil
}
