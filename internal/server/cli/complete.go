package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/config"
)

const (
	// completeWithin limits a shell's wait for names from a server.
	completeWithin = time.Second
	// mostCompleted limits the offered names.
	mostCompleted = 200
)

// flagValues holds the values of flags with few possible values, for all commands.
var flagValues = map[string][]string{
	"priority": {"high", "normal", "low"},
	"ack":      {"any", "all", "none"},
	"status":   statuses,
	"types":    eventTypes,
	"role":     {"publish", "read", "worker", "admin"},
}

// channelNames are the names of all channels.
func channelNames() (names []string) {
	for _, ch := range push.Channels() {
		names = append(names, string(ch))
	}
	return names
}

// completion is the source of completions for the first argument of commands.
type completion struct {
	path  string // path of a list in the API
	field string // the field of its items that holds the name
}

// completions by command path.
var completions = map[string]completion{
	"publish":              {"/v1/recipients", "id"},
	"listen":               {"/v1/recipients", "id"},
	"status":               {"/v1/notifications", "id"},
	"why":                  {"/v1/notifications", "id"},
	"recall":               {"/v1/notifications", "id"},
	"recipient show":       {"/v1/recipients", "id"},
	"recipient history":    {"/v1/recipients", "id"},
	"recipient disconnect": {"/v1/recipients", "id"},
	"recipient erase":      {"/v1/recipients", "id"},
	"preferences get":      {"/v1/recipients", "id"},
	"preferences set":      {"/v1/recipients", "id"},
	"hook show":            {"/v1/hooks", "name"},
	"hook set":             {"/v1/hooks", "name"},
	"hook replay":          {"/v1/hooks", "name"},
	"hook delete":          {"/v1/hooks", "name"},
	"source pause":         {"/v1/sources", "source"},
	"source resume":        {"/v1/sources", "source"},
	"source resync":        {"/v1/sources", "source"},
	"source preview":       {"/v1/sources", "source"},
	"source quarantine":    {"/v1/sources", "source"},
	"template show":        {"/v1/templates", "name"},
	"template revisions":   {"/v1/templates", "name"},
	"template set":         {"/v1/templates", "name"},
	"template preview":     {"/v1/templates", "name"},
	"template remove":      {"/v1/templates", "name"},
	"segment show":         {"/v1/segments", "name"},
	"segment set":          {"/v1/segments", "name"},
	"segment count":        {"/v1/segments", "name"},
	"segment delete":       {"/v1/segments", "name"},
	"campaign show":        {"/v1/campaigns", "id"},
	"campaign start":       {"/v1/campaigns", "id"},
	"campaign pause":       {"/v1/campaigns", "id"},
	"campaign resume":      {"/v1/campaigns", "id"},
	"campaign cancel":      {"/v1/campaigns", "id"},
	"campaign recall":      {"/v1/campaigns", "id"},
	"campaign clone":       {"/v1/campaigns", "id"},
	"campaign decide":      {"/v1/campaigns", "id"},
	"campaign correct":     {"/v1/campaigns", "id"},
	"campaign watch":       {"/v1/campaigns", "id"},
	"campaign deliveries":  {"/v1/campaigns", "id"},
	"campaign delete":      {"/v1/campaigns", "id"},
}

// completes reports whether a shell requests completions of a command line.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// complete lets shells complete values of flags, and names from the server.
func (p *program) complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		p.complete(sub)
	}
	path := strings.TrimPrefix(cmd.CommandPath(), "godwit ")
	if from, ok := completions[path]; ok && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.namesFrom(cmd.Context(), from), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		}
	}
	p.completeManaged(cmd, path)
	if path == "context use" || path == "context delete" {
		cmd.ValidArgsFunction = p.completeContexts
	}
	values := map[string][]string{"channel": channelNames()}
	maps.Copy(values, flagValues)
	for _, f := range config.Known(p.sections()...) {
		if f.OneOf != nil {
			values[f.Flag] = f.OneOf
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if list, ok := values[f.Name]; ok && f.Value.Type() != "bool" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)) // fails only if the flag already has a completion
		}
	})
	if f := cmd.PersistentFlags().Lookup("context"); f != nil {
		_ = cmd.RegisterFlagCompletionFunc("context", p.completeContexts)
	}
}

func (p *program) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	list, err := p.readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(list.all)), cobra.ShellCompDirectiveNoFileComp
}

// namesFrom reads names from the server, the newest first if they have a creation time. If the server cannot be reached, it returns none,
// without an error message.
func (p *program) namesFrom(ctx context.Context, from completion) (list []string) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	c, err := p.client(godwit.WithAttempts(1))
	if err != nil {
		return nil
	}
	defer c.Close()
	var page struct {
		Items []map[string]json.RawMessage `json:"items"`
	}
	call := godwit.Call{Method: http.MethodGet, Path: from.path}
	if from.path != "/v1/hooks" && from.path != "/v1/sources" { // these are listed as a whole, without pages
		call.Query = url.Values{"limit": {strconv.Itoa(mostCompleted)}}
	}
	if c.Call(ctx, call, &page) != nil {
		return nil
	}
	slices.SortStableFunc(page.Items, func(a, b map[string]json.RawMessage) int { // moments in UTC, as text
		return bytes.Compare(b["created_at"], a["created_at"])
	})
	seen := map[string]bool{} // a notification has as many copies as recipients
	for _, item := range page.Items {
		var name string
		if json.Unmarshal(item[from.field], &name) == nil && !seen[name] {
			seen[name] = true
			list = append(list, clean(name))
		}
	}
	return list
}
