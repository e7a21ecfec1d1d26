package cli

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
)

func (p *program) operatorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Show or replace the operator key, which manages apps",
		Long: `Show or replace the operator key of a server. It manages the apps, their keys and their settings, and does nothing else. The
server makes it at its first start and writes it to operator.key in its data folder; several nodes share one.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.operatorShowCommand(), p.operatorRotateCommand())
	return cmd
}

func (p *program) operatorShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the operator key of the data folder",
		Long:  "Print the operator key in the data folder of this machine, for godwit login elsewhere.",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if p.url != "" || p.context != "" {
				return usagef("a server shows its operator key to nobody: it is in operator.key of its data folder")
			}
			data := p.dataFolder()
			key, err := access.ReadOperatorKey(filepath.Join(data, access.OperatorFile))
			if err == nil && key == "" {
				err = withHint(fmt.Errorf("there is no %s in %s", access.OperatorFile, data), "the first start of a server makes it; of several nodes, one has it")
			}
			if err != nil {
				return err
			}
			if p.json {
				return p.line(map[string]string{"key": key})
			}
			_, err = fmt.Fprintln(p.stdout, key)
			return err
		},
	}
}

func (p *program) operatorRotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the operator key by a new one",
		Long: `Replace the operator key by a new one: the former ends at once on this node, within a second on others. The node that answers
writes the new key to its data folder, and the context that had the former one gets it. Where the key is lost, stop the server and use --local.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withServer(cmd, false, func(c *control) error {
				var made struct {
					ID    string `json:"id"`
					Key   string `json:"key"`
					Saved bool   `json:"saved"`
				}
				if err := c.call(cmd, http.MethodPost, "/v1/operator/rotate", nil, &made); err != nil {
					return fmt.Errorf("replace the operator key: %w", err)
				}
				places, err := p.keepOperator(made.Key)
				if p.json {
					return errors.Join(p.line(made), err)
				}
				if made.Saved {
					places = append([]string{"operator.key of the server's data folder"}, places...)
				}
				fmt.Fprintf(p.stdout, "The operator key is replaced. The new one, shown this once:\n\n  %s\n\n", p.paint(bold, made.Key))
				for _, place := range places {
					fmt.Fprintf(p.stdout, "It is in %s.\n", place)
				}
				return err
			})
		},
	}
	p.localFlags(cmd)
	return cmd
}

// keepOperator writes a new operator key to the context that had the former one.
func (p *program) keepOperator(key string) (places []string, err error) {
	if p.local || p.called == nil {
		return nil, nil
	}
	list, err := p.readContexts()
	if err != nil {
		return nil, err
	}
	for name, s := range list.all {
		if s.url != p.called.url || s.operator == "" || s.operator != p.called.operator {
			continue
		}
		s.operator = key
		list.all[name] = s
		places = append(places, "context "+name)
	}
	if len(places) == 0 {
		return nil, nil
	}
	return places, list.write()
}
