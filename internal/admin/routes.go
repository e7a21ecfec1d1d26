package admin

import (
	"errors"
	"fmt"
	"net/http"

	"godwit.dev/godwit/internal/audit"
	"godwit.dev/godwit/internal/people"
)

// route is a page or a deed: what a person must be to see or do it, and what is run.
type route struct {
	role  people.Role
	serve page
	// deed is what doing it is called, with the path's values in braces; empty: it changes nothing.
	deed string
}

// routes are all that is open to people who have signed in. A role here is worth that of the key which the same deed
// needs over the API. Pages draw only what a role may do: {{if may "send"}}.
func (a *admin) routes() map[string]route {
	return map[string]route{
		"GET /ui/{$}":                           {people.View, a.showOverview, ""},
		"GET /ui/overview/events":               {people.View, a.followOverview, ""},
		"GET /ui/send":                          {people.Send, a.composeNotification, ""},
		"POST /ui/send":                         {people.Send, a.sendNotification, "notification.publish"},
		"POST /ui/send/preview":                 {people.Send, a.previewNotification, ""},
		"GET /ui/campaigns":                     {people.View, a.listCampaigns, ""},
		"GET /ui/campaigns/new":                 {people.Send, a.composeCampaign, ""},
		"POST /ui/campaigns":                    {people.Send, a.createCampaign, "campaign.create"},
		"POST /ui/campaigns/preview":            {people.Send, a.previewCampaign, ""},
		"POST /ui/campaigns/bulk":               {people.Send, a.actOnCampaigns, "campaigns.change"},
		"GET /ui/campaigns/{id}":                {people.View, a.showCampaign, ""},
		"GET /ui/campaigns/{id}/progress":       {people.View, a.showProgress, ""},
		"GET /ui/campaigns/{id}/edit":           {people.Send, a.editCampaign, ""},
		"GET /ui/campaigns/{id}/correct":        {people.Send, a.composeCorrection, ""},
		"GET /ui/campaigns/{id}/deliveries":     {people.View, a.showDeliveries, ""},
		"POST /ui/campaigns/{id}":               {people.Send, a.reviseCampaign, "campaign.change"},
		"POST /ui/campaigns/{id}/test":          {people.Send, a.testCampaign, "campaign.test"},
		"POST /ui/campaigns/{id}/correct":       {people.Send, a.correctCampaign, "campaign.correct"},
		"POST /ui/campaigns/{id}/delete":        {people.Send, a.deleteCampaign, "campaign.delete"},
		"POST /ui/campaigns/{id}/{action}":      {people.Send, a.actOnCampaign, "campaign.{action}"},
		"GET /ui/recipients":                    {people.View, a.listRecipients, ""},
		"GET /ui/recipients/{name}":             {people.View, a.showRecipient, ""},
		"GET /ui/recipients/{name}/events":      {people.View, a.tapRecipient, ""},
		"POST /ui/recipients/{name}/disconnect": {people.Send, a.disconnectRecipient, "recipient.disconnect"},
		"POST /ui/recipients/{name}/erase":      {people.Send, a.eraseRecipient, "recipient.erase"},
		"GET /ui/notifications":                 {people.View, a.findNotification, ""},
		"GET /ui/notifications/{name}":          {people.View, a.showNotification, ""},
		"GET /ui/notifications/{name}/events":   {people.View, a.followNotification, ""},
		"POST /ui/notifications/{name}/recall":  {people.Send, a.recallNotification, "notification.recall"},
		"GET /ui/audience":                      {people.View, a.showAudience, ""},
		"POST /ui/audience/count":               {people.View, a.countAudience, ""},
		"GET /ui/objects":                       {people.View, a.listObjects, ""},
		"GET /ui/objects/{group}/{object}":      {people.View, a.showObject, ""},
		"GET /ui/topics":                        {people.View, a.showTopics, ""},
		"GET /ui/gateway":                       {people.View, a.showGateway, ""},
		"GET /ui/channels":                      {people.View, a.listChannels, ""},
		"GET /ui/channels/{name}":               {people.View, a.showChannel, ""},
		"POST /ui/channels/{name}":              {people.Admin, a.setChannel, "channel.set"},
		"POST /ui/channels/{name}/test":         {people.Admin, a.testChannel, "channel.test"},
		"GET /ui/integrations":                  {people.View, a.showIntegrations, ""},
		"POST /ui/hooks/{name}/{action}":        {people.Admin, a.actOnHook, "hook.{action}"},
		"POST /ui/sinks/{name}/{action}":        {people.Admin, a.actOnSink, "sink.{action}"},
		"POST /ui/sources/{name}/{action}":      {people.Admin, a.actOnSource, "source.{action}"},
		"GET /ui/nodes":                         {people.View, a.showNodes, ""},
		"GET /ui/log":                           {people.View, a.showLog, ""},
		"GET /ui/settings":                      {people.Admin, a.showSettings, ""},
		"GET /ui/keys":                          {people.Admin, a.listKeys, ""},
		"POST /ui/keys":                         {people.Admin, a.createKey, "key.create"},
		"POST /ui/keys/token":                   {people.Admin, a.mintToken, "token.make"},
		"POST /ui/keys/{id}/delete":             {people.Admin, a.deleteKey, "key.delete"},
		"GET /ui/audit":                         {people.Admin, a.listDeeds, ""},
		"GET /ui/signed-in":                     {people.View, a.listStays, ""}, // their own; an admin's are all
		"POST /ui/signed-in/{id}/end":           {people.View, a.endStay, "sign-in.end"},
		"POST /ui/signed-in/end-others":         {people.View, a.endOtherStays, "sign-in.end"},
		"GET /ui/audience/import":               {people.Send, a.showImport, ""},
		"POST /ui/audience/import":              {people.Send, a.importTable, "audience.import"},
		"GET /ui/audience/export":               {people.View, a.exportAudience, ""},
		"GET /ui/audience/export/addresses":     {people.Admin, a.exportAddresses, "audience.export"},
		"GET /ui/audience/{id}":                 {people.View, a.showEndpoint, ""},
		"POST /ui/audience/{id}/pause":          {people.Send, a.pauseEndpoint, "endpoint.pause"},
		"POST /ui/audience/{id}/wake":           {people.Send, a.wakeEndpoint, "endpoint.wake"},
		"POST /ui/audience/{id}/delete":         {people.Send, a.deleteEndpoint, "endpoint.delete"},
	}
}

// allowed runs a page for people with its role, and refuses others. It notes deeds, done or not, in the audit log.
func (a *admin) allowed(pattern string, rt route) page {
	return func(v *visit) error {
		who := v.person
		var err error
		if who.Role.May(rt.role) {
			err = rt.serve(v)
		} else {
			a.Log.InfoContext(v.r.Context(), "refused on the web page", "app", who.App, "by", who.Name(), "role", who.Role.String(), "route", pattern, "deed", rt.deed)
			err = &mistake{http.StatusForbidden, fmt.Sprintf("You may not do this: it needs the role %s, and yours is %s.", rt.role, who.Role)}
		}
		a.told(v, pattern, rt, err)
		return err
	}
}

// told notes a deed in the audit log. Mistaken requests, other than those without the right, and forms that are shown
// again change nothing and are not noted.
func (a *admin) told(v *visit, pattern string, rt route, err error) {
	if rt.deed == "" || err == nil && (v.again || v.status >= http.StatusBadRequest) {
		return
	}
	outcome := audit.Done
	var m *mistake
	switch {
	case err == nil:
	case !errors.As(err, &m):
		outcome = audit.Failed
	case m.status == http.StatusForbidden:
		outcome = audit.Refused
	default:
		return
	}
	deed, object := audit.Of(v.r, pattern, rt.deed)
	if object == "" {
		object = v.made
	}
	a.note(v.r, v.person, deed, object, outcome)
}

// note records a deed in the audit log.
func (a *admin) note(r *http.Request, who person, deed, object string, outcome audit.Outcome) {
	if a.Audit != nil && who.App != "" {
		a.Audit.Note(r.Context(), audit.Deed{App: who.App, By: who.Name(), Way: audit.Page, Address: address(r), Deed: deed, Object: object, Outcome: outcome})
	}
}
