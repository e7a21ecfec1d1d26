package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/problem"
)

// route is one entry of the API. A role of 0 needs no key.
type route struct {
	pattern string
	role    access.Role
	serve   func(c *call) error
	// stream: the answer has no end; deadlines are the handler's business.
	stream bool
}

func (a *api) routes() []route {
	return []route{
		{pattern: "POST /v1/notifications", role: access.Publish, serve: a.publish},
		{pattern: "POST /v1/notifications/batch", role: access.Publish, serve: a.publishBatch, stream: true},
		{pattern: "POST /v1/notify/{recipient}", role: access.Publish, serve: a.notify},
		{pattern: "GET /v1/notifications/{id}", role: access.Read, serve: a.status},
		{pattern: "DELETE /v1/notifications/{id}", role: access.Publish, serve: a.recall},

		{pattern: "GET /v1/recipients", role: access.Read, serve: a.listRecipients},
		{pattern: "GET /v1/recipients/{id}", role: access.Read, serve: a.getRecipient},
		{pattern: "GET /v1/recipients/{id}/notifications", role: access.Read, serve: a.history},
		{pattern: "DELETE /v1/recipients/{id}", role: access.Publish, serve: a.erase},
		{pattern: "DELETE /v1/recipients/{id}/sessions", role: access.Publish, serve: a.disconnect},

		{pattern: "PUT /v1/objects/{group}/{object}", role: access.Publish, serve: a.putObject},
		{pattern: "DELETE /v1/objects/{group}/{object}", role: access.Publish, serve: a.deleteObject},
		{pattern: "GET /v1/objects/{group}/{object}", role: access.Read, serve: a.getObject},
		{pattern: "GET /v1/objects/{group}", role: access.Read, serve: a.listObjects},
		{pattern: "GET /v1/objects/{group}/{object}/registrations", role: access.Read, serve: a.registrations},
		{pattern: "POST /v1/endpoints", serve: a.registerEndpoint},
		{pattern: "OPTIONS /v1/endpoints", serve: a.endpointsPreflight},
		{pattern: "GET /v1/endpoints", role: access.Read, serve: a.listEndpoints},
		{pattern: "POST /v1/endpoints/batch", role: access.Publish, serve: a.registerBatch, stream: true},
		{pattern: "GET /v1/endpoints/export", role: access.Read, serve: a.exportEndpoints, stream: true},
		{pattern: "GET /v1/endpoints/{id}", serve: a.getEndpoint},
		{pattern: "PATCH /v1/endpoints/{id}", serve: a.changeEndpoint},
		{pattern: "DELETE /v1/endpoints/{id}", serve: a.deleteEndpoint},
		{pattern: "OPTIONS /v1/endpoints/{id}", serve: a.endpointsPreflight},
		{pattern: "GET /v1/audience", role: access.Read, serve: a.audienceTotals},
		{pattern: "POST /v1/audience/count", role: access.Read, serve: a.countAudience},
		{pattern: "POST /compat/perfecty/{app}/v1/push/users", serve: a.perfectyRegister},
		{pattern: "GET /compat/perfecty/{app}/v1/push/users/{uuid}", serve: a.perfectyUser},
		{pattern: "POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", serve: a.perfectyUnregister},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users", serve: a.perfectyPreflight},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}", serve: a.perfectyPreflight},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", serve: a.perfectyPreflight},

		{pattern: "GET /v1/events", role: access.Read, serve: a.events, stream: true},
		{pattern: "POST /v1/acks", serve: a.acks},
		{pattern: "OPTIONS /v1/acks", serve: a.acksPreflight},

		{pattern: "POST /v1/keys", role: access.Admin, serve: a.createKey},
		{pattern: "GET /v1/keys", role: access.Admin, serve: a.listKeys},
		{pattern: "DELETE /v1/keys/{id}", role: access.Admin, serve: a.deleteKey},

		{pattern: "GET /v1/channels", role: access.Read, serve: a.listChannels},
		{pattern: "GET /v1/channels/{channel}", role: access.Read, serve: a.getChannel},
		{pattern: "PUT /v1/channels/{channel}", role: access.Admin, serve: a.putChannel},
		{pattern: "DELETE /v1/channels/{channel}", role: access.Admin, serve: a.deleteChannel},
		{pattern: "POST /v1/channels/{channel}/test", role: access.Admin, serve: a.testChannel},
		{pattern: "GET /v1/webpush/key", serve: a.webPushKey},

		{pattern: "POST /v1/campaigns", role: access.Publish, serve: a.createCampaign},
		{pattern: "GET /v1/campaigns", role: access.Read, serve: a.listCampaigns},
		{pattern: "GET /v1/campaigns/days", role: access.Read, serve: a.campaignDays},
		{pattern: "GET /v1/campaigns/{id}", role: access.Read, serve: a.getCampaign},
		{pattern: "PUT /v1/campaigns/{id}", role: access.Publish, serve: a.reviseCampaign},
		{pattern: "DELETE /v1/campaigns/{id}", role: access.Publish, serve: a.deleteCampaign},
		{pattern: "POST /v1/campaigns/{id}/start", role: access.Publish, serve: a.startCampaign},
		{pattern: "POST /v1/campaigns/{id}/pause", role: access.Publish, serve: a.pauseCampaign},
		{pattern: "POST /v1/campaigns/{id}/resume", role: access.Publish, serve: a.resumeCampaign},
		{pattern: "POST /v1/campaigns/{id}/cancel", role: access.Publish, serve: a.cancelCampaign},
		{pattern: "POST /v1/campaigns/{id}/recall", role: access.Publish, serve: a.recallCampaign},
		{pattern: "POST /v1/campaigns/{id}/retry-unknown", role: access.Publish, serve: a.retryUnknown},
		{pattern: "POST /v1/campaigns/{id}/test", role: access.Publish, serve: a.testCampaign},
		{pattern: "POST /v1/campaigns/{id}/preview", role: access.Read, serve: a.previewCampaign},
		{pattern: "GET /v1/campaigns/{id}/deliveries", role: access.Read, serve: a.deliveries, stream: true},
		{pattern: "GET /v1/campaigns/{id}/events", role: access.Read, serve: a.campaignEvents, stream: true},
		{pattern: "GET /v1/campaigns/{id}/days", role: access.Read, serve: a.campaignDays},
		{pattern: "POST /v1/track", serve: a.track},
		{pattern: "OPTIONS /v1/track", serve: a.trackPreflight},
		{pattern: "GET /v1/click/{token}", serve: a.click},

		{pattern: "GET /v1/hooks", role: access.Read, serve: a.listHooks},
		{pattern: "GET /v1/hooks/{name}", role: access.Read, serve: a.getHook},
		{pattern: "PUT /v1/hooks/{name}", role: access.Admin, serve: a.putHook},
		{pattern: "DELETE /v1/hooks/{name}", role: access.Admin, serve: a.deleteHook},
		{pattern: "POST /v1/hooks/{name}/replay", role: access.Admin, serve: a.replayHook},

		{pattern: "GET /v1/stats", role: access.Read, serve: a.stats},
		{pattern: "GET /metrics", serve: a.serveMetrics()},
		{pattern: "GET /debug/pprof/{name}", role: access.Admin, serve: a.profile, stream: true},
		{pattern: "GET /healthz", serve: a.healthz},
		{pattern: "GET /readyz", serve: a.readyz},
		{pattern: "GET /problems/{slug}", serve: a.explain},
		{pattern: "GET /openapi.yaml", serve: a.openapi},
		{pattern: "GET /sdk/{file}", serve: a.serveSDK()},
	}
}

// notFound answers what no route matched: 405 if the path exists with other methods, else 404.
func (a *api) notFound(c *call) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: c.r.URL, Host: c.r.Host}
		if _, pattern := a.mux.Handler(probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	if len(allowed) == 0 {
		return problem.NoSuchPath.With("nothing is served at " + clip(c.r.URL.Path) + "; GET /openapi.yaml lists what is")
	}
	list := strings.Join(allowed, ", ")
	c.w.Header().Set("Allow", list)
	return problem.MethodNotAllowed.With("this path takes " + list)
}

// clip shortens what a client sent before it is shown back.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
