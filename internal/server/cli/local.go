package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/config"
)

// settings loads the settings from the command's flags, the environment and the file.
func (p *program) settings(cmd *cobra.Command) (*config.Config, error) {
	c, err := config.Load(cmd.Flags(), p.environ, p.sections()...)
	if err == nil {
		return c, nil
	}
	err = fmt.Errorf("bad configuration: %w", err)
	var theirs *config.CompatError
	switch {
	case p.hintFor(err) != "":
	case errors.As(err, &theirs):
		return nil, withHint(err, "godwit config check --compat nammayatri --compat-config %s tries the file; its forms are Dhall, the output of dhall-to-json, and TOML", theirs.File)
	default:
		return nil, withHint(err, `settings are written like http_addr = "127.0.0.1:8080", one a line; godwit config show lists them, godwit config check tries a file`)
	}
	return nil, err
}

// emptyFolder reports whether a data folder is missing or empty.
func emptyFolder(data string) bool {
	entries, err := os.ReadDir(data)
	return len(entries) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// sayNewFolder warns that a data folder was created: a mistake if the server uses another one.
func (p *program) sayNewFolder(data string) {
	if full, err := filepath.Abs(data); err == nil {
		data = full
	}
	fmt.Fprintf(p.stderr, "%s %s is a NEW data folder, made by this command. A server uses it with: godwit serve --data %s\n", p.paint(red, "note:"), data, data)
}
