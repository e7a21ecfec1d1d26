package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/httpapi/public"
	"godwit.dev/godwit/internal/server/problem"
)

// route is one entry of the API. A role of 0 needs no key.
type route struct {
	pattern string
	role    access.Role
	serve   func(c *call.Call) error
	// deed is what it is called in the audit log; empty: it is not told there.
	deed string
	// stream: the answer has no end; deadlines are the handler's business.
	stream bool
	// posts answers the route's requests that come by Config.Direct; nil: none do.
	posts *backend.API
}

// routes are all of the API.
func routes(cfg *Config) []route {
	people := recipient.New(recipient.Config{Mailbox: cfg.Mailbox, Presence: cfg.Presence, Endpoints: cfg.Endpoints, Objects: cfg.Objects, Traces: cfg.Traces, Log: cfg.Log})
	told := cfg.Timelines
	if told == nil {
		told = timeline.New(timeline.Config{Mailbox: cfg.Mailbox, Recipients: people, Now: time.Now})
	}
	b := backend.New(backend.Parts{
		Publisher: cfg.Publisher, Mailbox: cfg.Mailbox, Timelines: told, Objects: cfg.Objects, Topics: cfg.Topics, Requests: cfg.Requests, Recipients: people, Events: cfg.Events, Endpoints: cfg.Endpoints,
		Campaigns: cfg.Campaigns, Templates: cfg.Templates, Log: cfg.Log, PublishLimit: cfg.PublishLimit, Draining: cfg.Draining, Node: cfg.Node,
	})
	p := public.New(public.Parts{
		Access: cfg.Access, Apps: cfg.Apps, Mailbox: cfg.Mailbox, Endpoints: cfg.Endpoints, Campaigns: cfg.Campaigns, Channels: cfg.Channels,
		Log: cfg.Log, Signups: cfg.Signups, Receipts: cfg.Receipts, AckLimit: cfg.AckLimit, Preferences: cfg.Preferences,
	})
	o := operator.New(operator.Parts{
		Mailbox: cfg.Mailbox, Presence: cfg.Presence, Keys: cfg.Keys, Channels: cfg.Channels, Hooks: cfg.Hooks, Sources: cfg.Sources, Sinks: cfg.Sinks, Gateway: cfg.Services, Categories: cfg.Categories, Deeds: cfg.Audit, Log: cfg.Log,
		Registry: cfg.Registry, Figures: cfg.Figures, Cluster: cfg.Cluster, Forget: cfg.Forget, Draining: cfg.Draining, Ready: cfg.Ready, Version: cfg.Version, Node: cfg.Node, Watch: cfg.Watch,
	})
	return []route{
		{pattern: "POST /v1/notifications", role: access.Publish, serve: b.Publish, posts: b},
		{pattern: "GET /v1/notifications", role: access.Read, serve: b.ListNotifications},
		{pattern: "POST /v1/notifications/batch", role: access.Publish, serve: b.PublishBatch, stream: true},
		{pattern: "POST /v1/notify/{recipient}", role: access.Publish, serve: b.Notify},
		{pattern: "GET /v1/notifications/{id}", role: access.Read, serve: b.Status},
		{pattern: "GET /v1/notifications/{id}/timeline", role: access.Read, serve: b.Timeline, stream: true},
		{pattern: "DELETE /v1/notifications/{id}", role: access.Publish, serve: b.Recall},

		{pattern: "GET /v1/recipients", role: access.Read, serve: b.ListRecipients},
		{pattern: "GET /v1/recipients/{id}", role: access.Read, serve: b.GetRecipient},
		{pattern: "GET /v1/recipients/{id}/timeline", role: access.Read, serve: b.RecipientTimeline},
		{pattern: "GET /v1/recipients/{id}/notifications", role: access.Read, serve: b.History},
		{pattern: "DELETE /v1/recipients/{id}", role: access.Publish, deed: "recipient.erase", serve: b.Erase},
		{pattern: "DELETE /v1/recipients/{id}/sessions", role: access.Publish, deed: "recipient.disconnect", serve: b.Disconnect},
		{pattern: "GET /v1/recipients/{id}/preferences", serve: p.GetPreferences},
		{pattern: "PUT /v1/recipients/{id}/preferences", serve: p.PutPreferences},
		{pattern: "DELETE /v1/recipients/{id}/preferences", serve: p.DeletePreferences},
		{pattern: "OPTIONS /v1/recipients/{id}/preferences", serve: p.PreferencesPreflight},
		{pattern: "GET /v1/categories", role: access.Read, serve: o.ListCategories},
		{pattern: "GET /v1/categories/{category}", role: access.Read, serve: o.GetCategory},
		{pattern: "PUT /v1/categories/{category}", role: access.Admin, deed: "category.set", serve: o.PutCategory},
		{pattern: "DELETE /v1/categories/{category}", role: access.Admin, deed: "category.delete", serve: o.DeleteCategory},

		{pattern: "PUT /v1/objects/{group}/{object}", role: access.Publish, serve: b.PutObject},
		{pattern: "POST /v1/objects/{group}/{object}", role: access.Publish, serve: b.PutObject}, // for publishers that can only post
		{pattern: "DELETE /v1/objects/{group}/{object}", role: access.Publish, deed: "object.delete", serve: b.DeleteObject},
		{pattern: "GET /v1/objects/{group}/{object}", role: access.Read, serve: b.GetObject},
		{pattern: "GET /v1/objects", role: access.Read, serve: b.ListGroups},
		{pattern: "GET /v1/objects/{group}", role: access.Read, serve: b.ListObjects},
		{pattern: "GET /v1/objects/{group}/{object}/registrations", role: access.Read, serve: b.Registrations},

		{pattern: "POST /v1/topics/{topic}", role: access.Publish, serve: b.PublishTopic},

		{pattern: "POST /v1/endpoints", serve: p.RegisterEndpoint},
		{pattern: "OPTIONS /v1/endpoints", serve: p.EndpointsPreflight},
		{pattern: "GET /v1/endpoints", role: access.Read, serve: b.ListEndpoints},
		{pattern: "POST /v1/endpoints/batch", role: access.Publish, deed: "audience.import", serve: b.RegisterBatch, stream: true},
		{pattern: "GET /v1/endpoints/export", role: access.Read, deed: "audience.export", serve: b.ExportEndpoints, stream: true},
		{pattern: "GET /v1/endpoints/{id}", serve: p.GetEndpoint},
		{pattern: "PATCH /v1/endpoints/{id}", serve: p.ChangeEndpoint},
		{pattern: "DELETE /v1/endpoints/{id}", serve: p.DeleteEndpoint},
		{pattern: "OPTIONS /v1/endpoints/{id}", serve: p.EndpointsPreflight},
		{pattern: "GET /v1/audience", role: access.Read, serve: b.AudienceTotals},
		{pattern: "POST /v1/audience/count", role: access.Read, serve: b.CountAudience},
		{pattern: "POST /compat/perfecty/{app}/v1/push/users", serve: p.PerfectyRegister},
		{pattern: "GET /compat/perfecty/{app}/v1/push/users/{uuid}", serve: p.PerfectyUser},
		{pattern: "POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", serve: p.PerfectyUnregister},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users", serve: p.PerfectyPreflight},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}", serve: p.PerfectyPreflight},
		{pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", serve: p.PerfectyPreflight},

		{pattern: "POST /v1/requests/{subject}", role: access.Publish, serve: b.Ask, stream: true},
		{pattern: "POST /v1/recipients/{id}/requests", role: access.Publish, serve: b.AskRecipient, stream: true},
		{pattern: "GET /v1/gateway", role: access.Read, serve: o.ListServices},
		{pattern: "GET /v1/gateway/{service}", role: access.Read, serve: o.GetService},
		{pattern: "PUT /v1/gateway/{service}", role: access.Admin, deed: "service.set", serve: o.PutService},
		{pattern: "DELETE /v1/gateway/{service}", role: access.Admin, deed: "service.delete", serve: o.DeleteService},

		{pattern: "GET /v1/events", role: access.Read, serve: b.FollowEvents, stream: true},
		{pattern: "POST /v1/acks", serve: p.Acks},
		{pattern: "OPTIONS /v1/acks", serve: p.AcksPreflight},

		{pattern: "POST /v1/keys", role: access.Admin, deed: "key.create", serve: o.CreateKey},
		{pattern: "GET /v1/keys", role: access.Admin, serve: o.ListKeys},
		{pattern: "DELETE /v1/keys/{id}", role: access.Admin, deed: "key.delete", serve: o.DeleteKey},

		{pattern: "GET /v1/audit", role: access.Admin, serve: o.ListDeeds},

		{pattern: "GET /v1/channels", role: access.Read, serve: o.ListChannels},
		{pattern: "GET /v1/channels/{channel}", role: access.Read, serve: o.GetChannel},
		{pattern: "PUT /v1/channels/{channel}", role: access.Admin, deed: "channel.set", serve: o.PutChannel},
		{pattern: "DELETE /v1/channels/{channel}", role: access.Admin, deed: "channel.delete", serve: o.DeleteChannel},
		{pattern: "POST /v1/channels/{channel}/test", role: access.Admin, deed: "channel.test", serve: o.TestChannel},
		{pattern: "GET /v1/webpush/key", serve: p.WebPushKey},

		{pattern: "POST /v1/campaigns", role: access.Publish, deed: "campaign.create", serve: b.CreateCampaign},
		{pattern: "GET /v1/campaigns", role: access.Read, serve: b.ListCampaigns},
		{pattern: "GET /v1/campaigns/days", role: access.Read, serve: b.CampaignDays},
		{pattern: "GET /v1/campaigns/{id}", role: access.Read, serve: b.GetCampaign},
		{pattern: "PUT /v1/campaigns/{id}", role: access.Publish, deed: "campaign.change", serve: b.ReviseCampaign},
		{pattern: "DELETE /v1/campaigns/{id}", role: access.Publish, deed: "campaign.delete", serve: b.DeleteCampaign},
		{pattern: "POST /v1/campaigns/{id}/start", role: access.Publish, deed: "campaign.start", serve: b.StartCampaign},
		{pattern: "POST /v1/campaigns/{id}/pause", role: access.Publish, deed: "campaign.pause", serve: b.PauseCampaign},
		{pattern: "POST /v1/campaigns/{id}/resume", role: access.Publish, deed: "campaign.resume", serve: b.ResumeCampaign},
		{pattern: "POST /v1/campaigns/{id}/cancel", role: access.Publish, deed: "campaign.cancel", serve: b.CancelCampaign},
		{pattern: "POST /v1/campaigns/{id}/recall", role: access.Publish, deed: "campaign.recall", serve: b.RecallCampaign},
		{pattern: "POST /v1/campaigns/{id}/correct", role: access.Publish, deed: "campaign.correct", serve: b.CorrectCampaign},
		{pattern: "POST /v1/campaigns/{id}/retry-unknown", role: access.Publish, deed: "campaign.retry-unknown", serve: b.RetryUnknown},
		{pattern: "POST /v1/campaigns/{id}/test", role: access.Publish, deed: "campaign.test", serve: b.TestCampaign},
		{pattern: "POST /v1/campaigns/{id}/preview", role: access.Read, serve: b.PreviewCampaign},
		{pattern: "GET /v1/campaigns/{id}/deliveries", role: access.Read, serve: b.Deliveries, stream: true},
		{pattern: "GET /v1/campaigns/{id}/events", role: access.Read, serve: b.CampaignEvents, stream: true},
		{pattern: "GET /v1/campaigns/{id}/days", role: access.Read, serve: b.CampaignDays},
		{pattern: "GET /v1/templates", role: access.Read, serve: b.ListTemplates},
		{pattern: "GET /v1/templates/{name}", role: access.Read, serve: b.GetTemplate},
		{pattern: "PUT /v1/templates/{name}", role: access.Publish, deed: "template.set", serve: b.PutTemplate},
		{pattern: "DELETE /v1/templates/{name}", role: access.Publish, deed: "template.delete", serve: b.DeleteTemplate},
		{pattern: "POST /v1/templates/{name}/preview", role: access.Read, serve: b.PreviewTemplate},
		{pattern: "POST /v1/track", serve: p.Track},
		{pattern: "OPTIONS /v1/track", serve: p.TrackPreflight},
		{pattern: "GET /v1/click/{token}", serve: p.Click},

		{pattern: "GET /v1/hooks", role: access.Read, serve: o.ListHooks},
		{pattern: "GET /v1/hooks/{name}", role: access.Read, serve: o.GetHook},
		{pattern: "PUT /v1/hooks/{name}", role: access.Admin, deed: "hook.set", serve: o.PutHook},
		{pattern: "DELETE /v1/hooks/{name}", role: access.Admin, deed: "hook.delete", serve: o.DeleteHook},
		{pattern: "POST /v1/hooks/{name}/replay", role: access.Admin, deed: "hook.replay", serve: o.ReplayHook},
		{pattern: "POST /v1/hooks/{name}/test", role: access.Admin, deed: "hook.test", serve: o.TestHook},

		{pattern: "GET /v1/sinks", role: access.Read, serve: o.ListSinks},
		{pattern: "GET /v1/sinks/{sink}", role: access.Read, serve: o.GetSink},
		{pattern: "PUT /v1/sinks/{sink}", role: access.Admin, deed: "sink.set", serve: o.PutSink},
		{pattern: "DELETE /v1/sinks/{sink}", role: access.Admin, deed: "sink.delete", serve: o.DeleteSink},

		{pattern: "GET /v1/sources", role: access.Read, serve: o.ListSources},
		{pattern: "GET /v1/sources/{source}", role: access.Read, serve: o.GetSource},
		{pattern: "PUT /v1/sources/{source}", role: access.Admin, deed: "source.set", serve: o.PutSource},
		{pattern: "DELETE /v1/sources/{source}", role: access.Admin, deed: "source.delete", serve: o.DeleteSource},

		{pattern: "GET /v1/cluster", role: access.Read, serve: o.Cluster},
		{pattern: "DELETE /v1/cluster/{node}", role: access.Admin, deed: "node.forget", serve: o.ForgetNode},
		{pattern: "GET /v1/stats", role: access.Read, serve: o.Stats},
		{pattern: "GET /v1/stats/history", role: access.Read, serve: o.History},
		{pattern: "GET /v1/topics", role: access.Read, serve: o.Topics},
		{pattern: "GET /v1/workers", role: access.Read, serve: o.Workers},
		{pattern: "GET /v1/connections", role: access.Read, serve: o.Connections},
		{pattern: "GET /v1/warnings", role: access.Read, serve: o.Warnings},
		{pattern: "GET /v1/log", role: access.Read, serve: o.ListRecords},
		{pattern: "GET /v1/settings", role: access.Admin, serve: o.ListSettings},
		{pattern: "GET /metrics", serve: o.Metrics()},
		{pattern: "GET /debug/pprof/{name}", role: access.Admin, serve: o.Profile, stream: true},
		{pattern: "GET /healthz", serve: o.Healthz},
		{pattern: "GET /readyz", serve: o.Readyz},
		{pattern: "GET /problems/{slug}", serve: p.Explain},
		{pattern: "GET /openapi.yaml", serve: p.OpenAPI},
		{pattern: "GET /sdk/{file}", serve: p.SDK()},
	}
}

// notFound answers what no route matched: 405 if the path exists with other methods, else 404.
func (a *api) notFound(c *call.Call) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: c.R.URL, Host: c.R.Host}
		if _, pattern := a.mux.Handler(probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	if len(allowed) == 0 {
		return problem.NoSuchPath.With("nothing is served at " + notification.Clip(c.R.URL.Path) + "; GET /openapi.yaml lists what is")
	}
	list := strings.Join(allowed, ", ")
	c.W.Header().Set("Allow", list)
	return problem.MethodNotAllowed.With("this path takes " + list)
}
