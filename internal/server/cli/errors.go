package cli

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app/backup"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store"
)

func usagef(format string, args ...any) error { return command.Usagef(format, args...) }

func withHint(err error, format string, args ...any) error {
	return command.WithHint(err, format, args...)
}

// hintForSetting returns the hint for a key that is not a setting.
func (p *program) hintForSetting(key string) string {
	var known []string
	for _, f := range config.Known(p.sections()...) {
		known = append(known, f.Key)
	}
	if near := command.Nearest(key, known); near != "" {
		return "did you mean " + near + "? godwit config show lists all settings"
	}
	return "godwit config show lists all settings; docs/reference/config.md explains them"
}

// hintFor returns hints for errors without one.
func (p *program) hintFor(err error) string {
	if hint := command.Hint(err); hint != "" {
		return hint
	}
	if hint := p.hintForData(err); hint != "" {
		return hint
	}
	var unknown *config.UnknownError
	if errors.As(err, &unknown) {
		return p.hintForSetting(unknown.Key)
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
		return p.hintForAnswer(answer)
	}
	if away(err) && p.called != nil && p.called.context {
		return "the address is that of " + p.called.named + ": is its server running? --url and godwit context use name another"
	}
	if errors.Is(err, access.ErrUnknownApp) {
		return "godwit app list shows the apps; --app names one"
	}
	hint := command.HintForSystem(err)
	if hint != "" && strings.Contains(err.Error(), "PostgreSQL") {
		return "is the database server there? The setting postgres names it: --postgres, GODWIT_POSTGRES or a line of godwit.toml"
	}
	return hint
}

// hintForData returns the hint for an error about a data folder.
func (p *program) hintForData(err error) string {
	var inUse *datadir.InUseError
	if errors.As(err, &inUse) {
		if p.local {
			return "leave --local out, and the command goes to that server"
		}
		return "stop the other server, or give this one a folder of its own with --data"
	}
	if data := store.Damaged(err); data != "" {
		return "godwit doctor --verify --data " + data + " lists what is damaged; godwit doctor --repair saves what can be saved, keeping copies; or restore a backup into a new folder"
	}
	var notEmpty *backup.NotEmptyError
	if errors.As(err, &notEmpty) {
		return "restore into a new folder with --data, then start the server on that"
	}
	return ""
}

// hintForRequest returns the hint for a request that the server calls a mistake, when only its command is known.
func hintForRequest(cmd *cobra.Command, err error) string {
	var answer *godwit.Error
	if errors.As(err, &answer) && answer.Status == http.StatusBadRequest {
		return command.ToHelp(cmd)
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

// away reports whether no server answers at an address.
func away(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// hintsForTypes are the hints for types of problems, by their slugs.
var hintsForTypes = map[string]string{
	problem.IDConflict.Slug():      "godwit status ID shows what was published under it; leave --id out and a new one is made",
	problem.MailboxFull.Slug():     "godwit recipient history NAME --status stored shows what waits; it ends when it is acknowledged, expires or is recalled",
	problem.NoSpace.Slug():         "free space on the server's disk, or lower its setting min_free; godwit doctor --data FOLDER shows both",
	problem.ChannelDisabled.Slug(): "godwit channel set CHANNEL --enable switches it on",
	problem.NobodyServes.Slug():    "start a worker first: godwit serve-subject SUBJECT -- cat answers with what was asked",
}

func (p *program) hintForAnswer(e *godwit.Error) string {
	operator := p.called != nil && p.called.operator != "" && p.presented == p.called.operator
	switch {
	case e.Status == http.StatusUnauthorized && operator:
		return "the operator key that this command found was replaced, or belongs to another server: godwit login " + p.called.url + " takes the present one"
	case e.Status == http.StatusPreconditionFailed && operator:
		return "godwit app show NAME shows what another operator made of it; then set it again"
	case e.Status == http.StatusConflict && path.Base(e.Type) == problem.Exists.Slug():
		return "choose another name; godwit app list shows those that there are"
	case e.Status == http.StatusNotFound && path.Base(e.Type) == problem.UnknownApp.Slug():
		return "godwit app list shows the apps of the server; --app names one"
	case e.Status == http.StatusBadRequest && e.Field == "app" && operator:
		return "godwit app list shows the apps, godwit app create NAME makes one; --app names the one that is meant"
	}
	if hint := hintsForTypes[path.Base(e.Type)]; hint != "" {
		return hint
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
