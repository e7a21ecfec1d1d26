package cli

import (
	"crypto/rand"
	"net/http"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

func (p *program) campaignClone() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "clone ID",
		Short: "Make a draft with a campaign's message, audience and pace",
		Long: `Make a draft like a campaign, in whatever state that is. The draft has its message, audience, rate and hours, and no
times: neither that of the start nor that of the end. A message that was corrected is the original one.`,
		Args: exactly("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if name != "" {
				body["name"] = name
			}
			return p.withClient(func(c *godwit.Client) error {
				var made campaignJSON
				call := godwit.Call{Method: http.MethodPost, Path: campaignPath(args[0], "clone"), Body: body, Key: rand.Text()}
				if err := c.Call(cmd.Context(), call, &made); err != nil {
					return err
				}
				return p.showCampaign(&made)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what people call the draft (default: Copy of, and the campaign's name)")
	return cmd
}
