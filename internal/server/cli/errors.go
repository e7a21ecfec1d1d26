package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app/backup"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store"
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// badFlag is what is wrong with a flag. Where the flag does not exist, the hint is one that does.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return withHint(&usageError{err}, "%s --help explains the flags", cmd.CommandPath())
	}
	typed := unknown.GetSpecifiedName()
	// Arguments written like flags are compared as cobra compares commands.
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	note := func(f *pflag.Flag) {
		if !f.Hidden {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	}
	cmd.Flags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if near := known.SuggestionsFor(typed); len(near) > 0 && len(typed) > 1 {
		return withHint(&usageError{err}, "did you mean --%s? %s --help lists them", nearest(typed, near), cmd.CommandPath())
	}
	return withHint(&usageError{err}, "%s --help lists its flags", cmd.CommandPath())
}

// hintForSetting is for a key that is no setting.
func hintForSetting(key string) string {
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, f := range config.Fields(config.Default()) {
		known.AddCommand(&cobra.Command{Use: f.Key, Run: func(*cobra.Command, []string) {}})
	}
	if near := known.SuggestionsFor(key); len(near) > 0 && key != "" {
		return "did you mean " + nearest(key, near) + "? godwit config show lists all settings"
	}
	return "godwit config show lists all settings; docs/reference/config.md explains them"
}

// nearest prefers the suggestion that begins as what was typed.
func nearest(typed string, near []string) string {
	for _, s := range near {
		if s[0] == typed[0] {
			return s
		}
	}
	return near[0]
}

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
func (p *program) report(cmd *cobra.Command, err error) {
	hint := hintFor(err)
	if hint == "" {
		hint = lastHint(cmd, err)
	}
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
	var unknown *config.UnknownError
	if errors.As(err, &unknown) {
		return hintForSetting(unknown.Key)
	}
	var setting *config.Error
	if errors.As(err, &setting) {
		return "godwit config show lists all settings; docs/reference/config.md explains them"
	}
	var refused *godwit.RefusedError
	if errors.As(err, &refused) {
		if hint := hintForRefusal(refused); hint != "" {
			return hint
		}
	}
	var answer *godwit.Error
	if errors.As(err, &answer) {
		return hintForAnswer(answer)
	}
	return hintForSystem(err)
}

// lastHint is the hint for a mistake when only its command is known.
func lastHint(cmd *cobra.Command, err error) string {
	var usage *usageError
	var answer *godwit.Error
	if errors.As(err, &usage) || errors.As(err, &answer) && answer.Status == http.StatusBadRequest {
		return cmd.CommandPath() + " --help shows how it is used"
	}
	return ""
}

func hintForRefusal(e *godwit.RefusedError) string {
	switch e.Reason {
	case "unauthenticated", "token_expired":
		return "outside development a recipient needs a token: put one from godwit token into GODWIT_TOKEN"
	case "forbidden":
		return "the token is for another recipient, group or device than was named"
	case "unimplemented":
		return "no Godwit server answers gRPC there: --grpc wants the gRPC port, 50051 unless the server's setting grpc_addr says otherwise"
	case "replaced":
		return "another session named the same device"
	}
	return ""
}

func hintForAnswer(e *godwit.Error) string {
	switch path.Base(e.Type) {
	case problem.IDConflict.Slug():
		return "godwit status ID shows what was published under it; leave --id out and a new one is made"
	case problem.MailboxFull.Slug():
		return "godwit recipient history NAME --status stored shows what waits; it ends when it is acknowledged, expires or is recalled"
	case problem.NoSpace.Slug():
		return "free space on the server's disk, or lower its setting min_free; godwit doctor --data FOLDER shows both"
	case problem.NobodyServes.Slug():
		return "start a worker first: godwit serve-subject SUBJECT -- cat answers with what was asked"
	}
	switch e.Status {
	case 400:
		if strings.Contains(e.Detail, "HTTPS server") || strings.Contains(e.Detail, "HTTP request to an HTTPS") {
			return "the server speaks TLS: name it with https:// in GODWIT_URL or --url"
		}
	case 401:
		return "put an API key into GODWIT_API_KEY; godwit key create makes one"
	case 403:
		return "use a key whose roles allow this; godwit key list shows them"
	case 404:
		if e.Type == "" {
			return "what answers there is no Godwit server: check GODWIT_URL or --url"
		}
		return "check the name, and that the key is of the app that has it; list commands show what there is"
	case 429:
		return "wait, or raise the limit of the server: godwit config show lists the settings limit_*"
	case 503:
		return "it may pass: try again; godwit doctor on the server's machine says what is wrong there"
	}
	return ""
}

// hintForTLS knows what to do about connections that could not be secured.
func hintForTLS(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	text := err.Error()
	says := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case errors.As(err, &unknown) || says("certificate signed by unknown authority"):
		return "if the certificate is of your own authority, name that with --ca FILE or in SSL_CERT_FILE"
	case errors.As(err, &name):
		return "use a name that the certificate is for: " + strings.Join(name.Certificate.DNSNames, ", ")
	case says("x509: certificate is valid for ") || says("x509: certificate is not valid for any names") || says("doesn't contain any IP SANs"):
		return "use a name that the certificate is for; godwit doctor on the server's machine shows it"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired || says("x509: certificate has expired"):
		return "renew the server's certificate; the server reads it again by itself. If it is good, check the clock of this machine"
	case says("transport: authentication handshake failed: EOF") || says(`transport: authentication handshake failed: tls: first record`):
		return "the gRPC port speaks no TLS: name it with --grpc grpc://HOST:PORT. If it does, check the port"
	case errors.As(err, &record) || says("server gave HTTP response to HTTPS client"):
		return "the server speaks no TLS there: name it with http://"
	case says("error reading server preface"):
		return "the port speaks TLS: name it with --grpc grpcs://HOST:PORT, and the authority with --ca FILE if it is your own. If it does not, check the port"
	}
	return ""
}

func hintForSystem(err error) string {
	if hint := hintForTLS(err); hint != "" {
		return hint
	}
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
	case errors.Is(err, fs.ErrNotExist):
		return "check the file's name; it is looked for in the present folder unless it begins with /"
	case errors.Is(err, context.DeadlineExceeded):
		return "it may have happened all the same; allow more time, or look with godwit status"
	}
	return ""
}
