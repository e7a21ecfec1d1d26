package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/app/backup"
	"godwit.dev/godwit/internal/app/datadir"
	"godwit.dev/godwit/internal/config"
	"godwit.dev/godwit/internal/store"
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// hintError carries what to do about an error.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func withHint(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// report prints an error and, where there is one, what to do about it.
func (p *program) report(err error) {
	hint := hintFor(err)
	if p.json {
		b, _ := json.Marshal(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{err.Error(), hint}) // two strings cannot fail to marshal
		fmt.Fprintf(p.stderr, "%s\n", b)
		return
	}
	fmt.Fprintf(p.stderr, "godwit: %v\n", err)
	if hint != "" {
		fmt.Fprintf(p.stderr, "hint: %s\n", hint)
	}
}

// hintFor knows what to do about errors from below.
func hintFor(err error) string {
	var hinted *hintError
	if errors.As(err, &hinted) {
		return hinted.hint
	}
	var inUse *datadir.InUseError
	if errors.As(err, &inUse) {
		return "stop the other server, or give this one a folder of its own with --data"
	}
	if data := store.Damaged(err); data != "" {
		return "godwit doctor --verify --data " + data + " lists what is damaged; godwit doctor --repair saves what can be saved, keeping copies; or restore a backup into a new folder"
	}
	var notEmpty *backup.NotEmptyError
	if errors.As(err, &notEmpty) {
		return "restore into a new folder with --data, then start the server on that"
	}
	var setting *config.Error
	if errors.As(err, &setting) {
		return "godwit config show lists all settings; docs/reference/config.md explains them"
	}
	var refused *godwit.RefusedError
	if errors.As(err, &refused) {
		return hintForRefusal(refused)
	}
	var answer *godwit.Error
	if errors.As(err, &answer) {
		return hintForAnswer(answer)
	}
	return hintForSystem(err)
}

func hintForRefusal(e *godwit.RefusedError) string {
	switch e.Reason {
	case "unauthenticated", "token_expired":
		return "outside development a recipient needs a token: put one from godwit token into GODWIT_TOKEN"
	case "forbidden":
		return "the token is for another recipient, group or device than was named"
	case "replaced":
		return "another session named the same device"
	}
	return ""
}

func hintForAnswer(e *godwit.Error) string {
	switch e.Status {
	case 401:
		return "put an API key into GODWIT_API_KEY; godwit key create makes one"
	case 403:
		return "use a key whose roles allow this; godwit key list shows them"
	}
	return ""
}

func hintForSystem(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, access.ErrUnknownApp):
		return "godwit app list shows the apps of a data folder; --data names the folder, --app the app"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is the server running? Start one with godwit serve --dev, or name it with GODWIT_URL"
	case errors.As(err, &dns):
		return "check the server's name in GODWIT_URL"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program listens there; choose another address with --http-addr or --grpc-addr"
	case errors.Is(err, fs.ErrPermission):
		return "run as the user that owns the data folder, or set --data"
	}
	return ""
}
