package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

// whole reports whether the notification is read as a whole.
func (f *publishFlags) whole() bool { return f.file != "" || f.stdin }

// besideWhole are the flags that go with a whole notification.
var besideWhole = map[string]bool{"file": true, "stdin": true, "wait": true, "id": true}

// publishWhole publishes a notification that is read as JSON. A recipient among the arguments replaces that of the file. An id is added, so
// that a try after a failure publishes nothing twice.
func (p *program) publishWhole(cmd *cobra.Command, f *publishFlags, args []string, wait time.Duration) error {
	if err := f.checkWhole(cmd); err != nil {
		return err
	}
	members, err := p.readWhole(f)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		members["to"] = quoted(args[0])
	}
	if f.id != "" {
		members["id"] = quoted(f.id)
	}
	if members["id"] == nil {
		made := godwit.Publication{To: "x", Title: "x"}
		var body struct{ ID json.RawMessage }
		if b, err := made.RequestBody(); err == nil && json.Unmarshal(b, &body) == nil && body.ID != nil {
			members["id"] = body.ID
		}
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var answer json.RawMessage
	if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodPost, Path: "/v1/notifications", Body: members}, &answer); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return p.printWhole(cmd, c, answer, wait)
}

// checkWhole refuses flags that do not go with a whole notification.
func (f *publishFlags) checkWhole(cmd *cobra.Command) error {
	if f.file != "" && f.stdin {
		return usagef("--file and --stdin contradict each other")
	}
	var extra string
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !besideWhole[flag.Name] {
			extra = flag.Name
		}
	})
	if extra != "" || f.body == "-" {
		return withHint(usagef("--%s does not go with a whole notification", strings.Trim(extra+" "+f.body, " -")), "write it into the JSON")
	}
	return nil
}

// readWhole reads the members of a notification.
func (p *program) readWhole(f *publishFlags) (map[string]json.RawMessage, error) {
	from, name := p.stdin, "standard input"
	if f.file != "" {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, fmt.Errorf("read notification: %w", err)
		}
		defer file.Close()
		from, name = file, f.file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read notification: %w", err)
	case len(text) > maxInput:
		return nil, fmt.Errorf("the notification is larger than %d bytes", maxInput)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, withHint(usagef("%s has no JSON object: %v", name, err), `write it like {"to":"driver-42","title":"New ride"}`)
	}
	return members, nil
}

// printWhole prints the receipts of an answer, and waits for the acknowledgement of a single one.
func (p *program) printWhole(cmd *cobra.Command, c *godwit.Client, answer json.RawMessage, wait time.Duration) error {
	var many struct{ Results []json.RawMessage }
	if err := json.Unmarshal(answer, &many); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if many.Results == nil {
		var r godwit.Receipt
		if err := json.Unmarshal(answer, &r); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if wait > 0 {
			return p.await(cmd.Context(), c, r, wait)
		}
		return p.printReceipt(r)
	}
	if wait > 0 {
		return withHint(usagef("--wait is for one recipient; %d were published to", len(many.Results)), "godwit status shows what became of each")
	}
	failed := 0
	for _, one := range many.Results {
		published, err := p.printResult(one)
		if err != nil {
			return err
		}
		if !published {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d were not published", failed, len(many.Results))
	}
	return nil
}

// printResult prints one recipient's receipt, or the reason why there is none.
func (p *program) printResult(one json.RawMessage) (published bool, err error) {
	var r struct {
		godwit.Receipt
		Error *struct{ Title, Detail string } `json:"error"`
	}
	if err := json.Unmarshal(one, &r); err != nil {
		return false, fmt.Errorf("read answer: %w", err)
	}
	switch {
	case p.json:
		err = p.line(one)
	case r.Error == nil:
		err = p.printReceipt(r.Receipt)
	default:
		_, err = fmt.Fprintf(p.stderr, "%s: %s: %s\n", clean(r.To), r.Error.Title, clean(r.Error.Detail))
	}
	return r.Error == nil, err
}

func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // a string always encodes
	return b
}

// checkData refuses data that begins like a JSON object or list and is none.
func checkData(data []byte) error {
	text := bytes.TrimSpace(data)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || json.Valid(text) {
		return nil
	}
	err := json.Unmarshal(text, new(json.RawMessage))
	return withHint(usagef("--data begins like JSON and is not valid: %v", err), "mend it; text that is no JSON must not begin with { or [")
}

// steps parses an escalation, like live,fcm:5s,telegram:30s.
func steps(text string) (list []godwit.Step, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		name, after, timed := strings.Cut(strings.TrimSpace(one), ":")
		s := godwit.Step{Channel: name}
		if name == "" {
			return nil, withHint(usagef("--escalate %s has a step without a channel", text), "write it like live,fcm:5s,telegram:30s")
		}
		if timed {
			if s.After, err = notification.ParseDuration(after); err != nil {
				return nil, withHint(usagef("--escalate: %s: %w", one, err), "write it like live,fcm:5s,telegram:30s")
			}
		}
		list = append(list, s)
	}
	return list, nil
}
