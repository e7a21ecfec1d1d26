package admin

import (
	"errors"
	"maps"
	"net/http"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
)

// route is a page or an action: the role that it needs, and the function that serves it.
type route struct {
	role  signin.Role
	serve page
	// action is the audit log's name of the action, with the path's values in braces; empty: it changes nothing.
	action string
}

// routes returns all pages and actions for signed-in people. A role here allows as much as the key that the same action needs over the API.
// Pages show only what a role may do: {{if may "send"}}.
func (a *admin) routes() map[string]route {
	all := map[string]route{
		"GET /ui/{$}":                           {signin.View, a.showOverview, ""},
		"GET /ui/overview/events":               {signin.View, a.followOverview, ""},
		"GET /ui/start/{goal}":                  {signin.View, a.showGuide, ""},
		"GET /ui/start/{goal}/events":           {signin.View, a.followGuide, ""},
		"GET /ui/start/godwit-sw.js":            {signin.View, a.giveWorker, ""},
		"POST /ui/start/{goal}/origin":          {signin.Admin, a.changeOrigins, "app.set"},
		"POST /ui/start/{goal}/connect":         {signin.Admin, a.connectChannel, "channel.set"},
		"POST /ui/start/{goal}/token":           {signin.Admin, a.guideToken, "token.make"},
		"POST /ui/start/{goal}/test":            {signin.Send, a.guideTest, "channel.test"},
		"POST /ui/start/{goal}/away":            {signin.Admin, a.putAway, "guide.away"},
		"GET /ui/send":                          {signin.Send, a.composeNotification, ""},
		"POST /ui/send":                         {signin.Send, a.sendNotification, "notification.publish"},
		"POST /ui/send/preview":                 {signin.Send, a.previewNotification, ""},
		"GET /ui/campaigns":                     {signin.View, a.listCampaigns, ""},
		"GET /ui/campaigns/new":                 {signin.Send, a.composeCampaign, ""},
		"POST /ui/campaigns":                    {signin.Send, a.createCampaign, "campaign.create"},
		"POST /ui/campaigns/preview":            {signin.Send, a.previewCampaign, ""},
		"POST " + mediumPath:                    {signin.Send, a.uploadMedium, "channel.upload"},
		"POST /ui/campaigns/bulk":               {signin.Send, a.actOnCampaigns, "campaigns.change"},
		"GET /ui/campaigns/{id}":                {signin.View, a.showCampaign, ""},
		"GET /ui/campaigns/{id}/progress":       {signin.View, a.showProgress, ""},
		"GET /ui/campaigns/{id}/causes":         {signin.View, a.showCauses, ""},
		"GET /ui/campaigns/{id}/edit":           {signin.Send, a.editCampaign, ""},
		"GET /ui/campaigns/{id}/correct":        {signin.Send, a.composeCorrection, ""},
		"GET /ui/campaigns/{id}/deliveries":     {signin.View, a.showDeliveries, ""},
		"POST /ui/campaigns/{id}":               {signin.Send, a.reviseCampaign, "campaign.change"},
		"POST /ui/campaigns/{id}/test":          {signin.Send, a.testCampaign, "campaign.test"},
		"POST /ui/campaigns/{id}/correct":       {signin.Send, a.correctCampaign, "campaign.correct"},
		"POST /ui/campaigns/{id}/delete":        {signin.Send, a.deleteCampaign, "campaign.delete"},
		"POST /ui/campaigns/{id}/clone":         {signin.Send, a.cloneCampaign, "campaign.clone"},
		"POST /ui/campaigns/{id}/{action}":      {signin.Send, a.actOnCampaign, "campaign.{action}"},
		"GET /ui/templates":                     {signin.View, a.listTemplates, ""},
		"POST /ui/templates":                    {signin.Send, a.makeTemplate, "template.set"},
		"GET /ui/new-template":                  {signin.Send, a.newTemplate, ""},
		"POST /ui/new-template/look":            {signin.Send, a.lookAtTemplate, ""},
		"GET /ui/templates/{name}":              {signin.View, a.showTemplate, ""},
		"POST /ui/templates/{name}":             {signin.Send, a.changeTemplate, "template.set"},
		"POST /ui/templates/{name}/delete":      {signin.Send, a.deleteTemplate, "template.delete"},
		"POST /ui/templates/{name}/restore":     {signin.Send, a.restoreTemplate, "template.set"},
		"GET /ui/segments":                      {signin.View, a.listSegments, ""},
		"POST /ui/segments":                     {signin.Send, a.makeSegment, "segment.set"},
		"GET /ui/new-segment":                   {signin.Send, a.newSegment, ""},
		"POST /ui/new-segment/look":             {signin.Send, a.lookAtSegment, ""},
		"GET /ui/segments/{name}":               {signin.View, a.showSegment, ""},
		"POST /ui/segments/{name}":              {signin.Send, a.changeSegment, "segment.set"},
		"POST /ui/segments/{name}/delete":       {signin.Send, a.deleteSegment, "segment.delete"},
		"POST /ui/segments/{name}/restore":      {signin.Send, a.restoreSegment, "segment.set"},
		"GET /ui/find":                          {signin.View, a.findAnything, ""},
		"GET /ui/design":                        {signin.View, a.showDesign, ""},
		"GET /ui/recipients":                    {signin.View, a.listRecipients, ""},
		"GET /ui/recipients/{name}":             {signin.View, a.showRecipient, ""},
		"GET /ui/recipients/{name}/events":      {signin.View, a.tapRecipient, ""},
		"POST /ui/recipients/{name}/disconnect": {signin.Send, a.disconnectRecipient, "recipient.disconnect"},
		"POST /ui/recipients/{name}/erase":      {signin.Send, a.eraseRecipient, "recipient.erase"},
		"POST /ui/recipients/{name}/test":       {signin.Send, a.testRecipient, "recipient.test"},
		"GET /ui/notifications":                 {signin.View, a.findNotification, ""},
		"GET /ui/notifications/{name}":          {signin.View, a.showNotification, ""},
		"GET /ui/notifications/{name}/events":   {signin.View, a.followNotification, ""},
		"POST /ui/notifications/{name}/recall":  {signin.Send, a.recallNotification, "notification.recall"},
		"GET /ui/audience":                      {signin.View, a.showAudience, ""},
		"POST /ui/audience/count":               {signin.View, a.countAudience, ""},
		"GET /ui/objects":                       {signin.View, a.listObjects, ""},
		"GET /ui/objects/{group}/{object}":      {signin.View, a.showObject, ""},
		"GET /ui/topics":                        {signin.View, a.showTopics, ""},
		"GET /ui/gateway":                       {signin.View, a.showGateway, ""},
		"GET /ui/channels":                      {signin.View, a.listChannels, ""},
		"GET /ui/channels/{name}":               {signin.View, a.showChannel, ""},
		"POST /ui/channels/{name}":              {signin.Admin, a.setChannel, "channel.set"},
		"POST /ui/channels/{name}/test":         {signin.Admin, a.testChannel, "channel.test"},
		"GET /ui/integrations":                  {signin.View, a.showIntegrations, ""},
		"POST /ui/hooks/{name}/{action}":        {signin.Admin, a.actOnHook, "hook.{action}"},
		"POST /ui/sinks/{name}/{action}":        {signin.Admin, a.actOnSink, "sink.{action}"},
		"GET /ui/sources/{name}/quarantine":     {signin.View, a.showQuarantine, ""},
		"POST /ui/sources/{name}/{action}":      {signin.Admin, a.actOnSource, "source.{action}"},
		"GET /ui/nodes":                         {signin.View, a.showNodes, ""},
		"GET /ui/log":                           {signin.View, a.showLog, ""},
		"GET /ui/settings":                      {signin.Admin, a.showSettings, ""},
		"GET /ui/keys":                          {signin.Admin, a.listKeys, ""},
		"POST /ui/keys":                         {signin.Admin, a.createKey, "key.create"},
		"POST /ui/keys/token":                   {signin.Admin, a.mintToken, "token.make"},
		"POST /ui/keys/{id}/replace":            {signin.Admin, a.replaceKey, "key.create"},
		"POST /ui/keys/{id}/delete":             {signin.Admin, a.deleteKey, "key.delete"},
		"GET /ui/audit":                         {signin.Admin, a.listAudit, ""},
		"GET /ui/signed-in":                     {signin.View, a.listLogins, ""}, // people see their own logins, an admin all
		"POST /ui/signed-in/{id}/end":           {signin.View, a.endLogin, "sign-in.end"},
		"POST /ui/signed-in/end-others":         {signin.View, a.endOtherLogins, "sign-in.end"},
		"GET /ui/audience/import":               {signin.Send, a.showImport, ""},
		"POST /ui/audience/import":              {signin.Send, a.importTable, "audience.import"},
		"POST /ui/audience/import/check":        {signin.Send, a.checkTable, ""},
		"POST /ui/audience/import/undo":         {signin.Send, a.undoImport, "audience.undo"},
		"GET /ui/audience/export":               {signin.View, a.exportAudience, ""},
		"GET /ui/audience/export/addresses":     {signin.Admin, a.exportAddresses, "audience.export"},
		"GET /ui/audience/{id}":                 {signin.View, a.showEndpoint, ""},
		"POST /ui/audience/{id}/pause":          {signin.Send, a.pauseEndpoint, "endpoint.pause"},
		"POST /ui/audience/{id}/wake":           {signin.Send, a.wakeEndpoint, "endpoint.wake"},
		"POST /ui/audience/{id}/delete":         {signin.Send, a.deleteEndpoint, "endpoint.delete"},
	}
	maps.Copy(all, a.resourceRoutes())
	maps.Copy(all, a.ownRoutes())
	return all
}

// allowed runs a page for people with its role, and refuses others. It records actions, done or refused, in the audit log.
func (a *admin) allowed(pattern string, rt route) page {
	return func(v *visit) error {
		who := v.person
		if who.Role == signin.Operator && pattern == "GET /ui/{$}" {
			a.leadTo(v, appsPath, http.StatusOK)
			return nil
		}
		var err error
		if who.Role.May(rt.role) {
			err = rt.serve(v)
		} else {
			a.Log.InfoContext(v.r.Context(), "refused on the web page", "app", who.App, "by", who.Name(), "role", who.Role.String(), "route", pattern, "deed", rt.action)
			err = mistaken(http.StatusForbidden, "You may not do this: it needs the role %s, and yours is %s.", rt.role, who.Role)
		}
		a.told(v, pattern, rt, err)
		return err
	}
}

// told records an action in the audit log. It omits mistaken requests, except those that lack the right, and forms that are shown again:
// they change nothing.
func (a *admin) told(v *visit, pattern string, rt route, err error) {
	if rt.action == "" || err == nil && (v.again || v.status >= http.StatusBadRequest) {
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
	action, object := audit.Of(v.r, pattern, rt.action)
	if v.made != "" {
		object = v.made
	}
	a.note(v.r, v.person, action, object, outcome)
}

// note records an action in the audit log.
func (a *admin) note(r *http.Request, who person, action, object string, outcome audit.Outcome) {
	switch {
	case a.Audit == nil:
	case who.Role == signin.Operator:
		a.noteOperator(r, who, action, object, outcome)
	case who.App != "":
		a.Audit.Note(r.Context(), audit.Entry{App: who.App, By: who.Name(), Way: audit.Page, Address: address(r), Action: action, Object: object, Outcome: outcome})
	}
}
