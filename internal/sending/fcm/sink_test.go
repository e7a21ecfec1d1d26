package fcm_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
)

// sinkWish makes this program run an FCM server for BenchmarkSend, so that its work is not counted as the sender's.
const sinkWish = "GODWIT_FCM_SINK"

// sink is the address and credentials of an FCM server for the sender.
type sink struct {
	URL       string
	Cert      []byte
	Account   []byte
	Addresses []json.RawMessage
}

func TestMain(m *testing.M) {
	if os.Getenv(sinkWish) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	server := fcmserver.Start(fcmserver.Options{Quick: true})
	s := sink{URL: server.URL, Cert: server.CertPEM(), Account: server.Account()}
	for range 1000 {
		_, address := server.Device(fcmserver.Behaviour{})
		s.Addresses = append(s.Addresses, address)
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark has ended
}

// startSink starts an FCM server in a separate process.
func startSink(b *testing.B) (s sink) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), sinkWish+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if err := json.NewDecoder(out).Decode(&s); err != nil {
		b.Fatal(err)
	}
	return s
}
