package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/server/cli/command"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if p.json {
				return p.line(v)
			}
			text := "godwit " + v.Version
			if v.Revision != "" {
				text += " (" + v.Revision + ")"
			}
			_, err := fmt.Fprintf(p.stdout, "%s %s %s\n", text, v.Go, v.Platform)
			return err
		},
	}
}

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	v := versionInfo{Version: command.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) > 12:
			v.Revision = s.Value[:12] + v.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += ", modified"
		}
	}
	return v
}
