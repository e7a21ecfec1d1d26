package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
)

// Phones are the settings of ServePhones: a test FCM with a number of devices, in a process of its own.
type Phones struct {
	Devices int
	Cap     int  // messages accepted in any one second; further ones are told to retry later; 0: no limit
	Quiet   bool // do not report messages, where their cost is measured elsewhere
}

// phonesLine is one line of the process's output.
type phonesLine struct {
	Ready *phonesReady `json:"ready,omitempty"`
	Got   *phonesGot   `json:"got,omitempty"`
}

type phonesReady struct {
	URL       string            `json:"url"`
	Cert      []byte            `json:"cert"` // PEM
	Account   []byte            `json:"account"`
	Addresses []json.RawMessage `json:"addresses"`
}

type phonesGot struct {
	ID    string `json:"id"`
	At    int64  `json:"at"` // by loadgen.Now
	Taken bool   `json:"taken"`
}

// ServePhones runs a test FCM until ctx or its parent process ends.
func ServePhones(ctx context.Context, in io.Reader, out io.Writer, p Phones) error {
	enc := json.NewEncoder(out)
	var mu sync.Mutex // one line at a time
	say := func(l phonesLine) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(l) // the error is ignored: if the reader is gone, the input is closed too
	}
	o := fcmserver.Options{Quick: true, Cap: p.Cap}
	if !p.Quiet {
		o.Told = func(id string, taken bool) { say(phonesLine{Got: &phonesGot{ID: id, At: loadgen.Now(), Taken: taken}}) }
	}
	server := fcmserver.Start(o)
	defer server.Close()
	ready := phonesReady{URL: server.URL, Cert: server.CertPEM(), Account: server.Account()}
	for range p.Devices {
		_, address := server.Device(fcmserver.Behaviour{})
		ready.Addresses = append(ready.Addresses, address)
	}
	say(phonesLine{Ready: &ready})
	done := make(chan struct{})
	go func() { // ends when the input is closed, as the process does
		_, _ = io.Copy(io.Discard, in)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	if problems := server.Problems(); len(problems) > 0 {
		return fmt.Errorf("FCM would not take it: %s", problems[0])
	}
	return nil
}

// phones is such a process.
type phones struct {
	phonesReady
	certFile string
	cmd      *exec.Cmd
	in       io.Closer
	ended    chan struct{}

	mu     sync.Mutex
	got    map[string]int64 // time of the first message of each id
	taken  []int64          // when messages were
	denied int
	news   chan struct{} // closed when another message comes
}

// startPhones starts one.
func (c *Common) startPhones(ctx context.Context, p Phones) (*phones, error) {
	cmd := exec.CommandContext(ctx, c.Testbed.Self, "phones", "--devices", strconv.Itoa(p.Devices), "--cap", strconv.Itoa(p.Cap), "--quiet="+strconv.FormatBool(p.Quiet))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start phones: %w", err)
	}
	ph := &phones{cmd: cmd, in: in, ended: make(chan struct{}), got: make(map[string]int64), news: make(chan struct{})}
	lines := json.NewDecoder(bufio.NewReaderSize(out, 1<<20))
	var first phonesLine
	err = lines.Decode(&first)
	go ph.listen(lines) // ends with the process, which stop waits for
	if err == nil && first.Ready == nil {
		err = errors.New("they are not ready")
	}
	if err == nil {
		ph.phonesReady = *first.Ready
		err = ph.saveCert(c.Testbed.Server.Dir)
	}
	if err != nil {
		ph.stop()
		return nil, fmt.Errorf("start phones: %w", err)
	}
	return ph, nil
}

// saveCert writes the test FCM's certificate to a file, so that the measured server can trust it.
func (p *phones) saveCert(dir string) error {
	f, err := os.CreateTemp(dir, "godwit-bench-fcm-*.pem")
	if err != nil {
		return err
	}
	p.certFile = f.Name()
	_, err = f.Write(p.Cert)
	return errors.Join(err, f.Close())
}

func (p *phones) listen(lines *json.Decoder) {
	defer close(p.ended)
	for {
		var l phonesLine
		if lines.Decode(&l) != nil {
			return
		}
		if l.Got == nil {
			continue
		}
		p.mu.Lock()
		if l.Got.Taken {
			p.taken = append(p.taken, l.Got.At)
			if _, twice := p.got[l.Got.ID]; !twice {
				p.got[l.Got.ID] = l.Got.At
			}
		} else {
			p.denied++
		}
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
}

// await waits until FCM has accepted a message with this id, and returns the time; ok is false if patience or ctx has ended.
func (p *phones) await(ctx context.Context, id string, patience time.Duration) (at int64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		p.mu.Lock()
		at, ok = p.got[id]
		news := p.news
		p.mu.Unlock()
		if ok {
			return at, true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, false
		}
	}
}

// asked returns the number of messages accepted since a time, the most in one second, and the number rejected by the cap since the process
// began.
func (p *phones) asked(since int64) (taken, most, denied int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.taken)
	from, _ := slices.BinarySearch(p.taken, since)
	last := p.taken[from:]
	for i, j := 0, 0; i < len(last); i++ {
		for last[i]-last[j] >= int64(time.Second) {
			j++
		}
		most = max(most, i-j+1)
	}
	return len(last), most, p.denied
}

// stop ends the process.
func (p *phones) stop() {
	_ = p.in.Close()
	<-p.ended
	_ = p.cmd.Wait() // the process has printed its error on standard error
	if p.certFile != "" {
		_ = os.Remove(p.certFile) // a file that remains is in the temporary folder
	}
}
