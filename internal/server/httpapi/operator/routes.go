package operator

import (
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Routes are the calls of this package.
func (a *API) Routes() []call.Route {
	return []call.Route{
		{Pattern: "GET /v1/categories", Role: access.Read, Serve: a.ListCategories},
		{Pattern: "GET /v1/categories/{category}", Role: access.Read, Serve: a.GetCategory},
		{Pattern: "PUT /v1/categories/{category}", Role: access.Admin, Deed: "category.set", Serve: a.PutCategory},
		{Pattern: "DELETE /v1/categories/{category}", Role: access.Admin, Deed: "category.delete", Serve: a.DeleteCategory},

		{Pattern: "GET /v1/gateway", Role: access.Read, Serve: a.ListServices},
		{Pattern: "GET /v1/gateway/{service}", Role: access.Read, Serve: a.GetService},
		{Pattern: "PUT /v1/gateway/{service}", Role: access.Admin, Deed: "service.set", Serve: a.PutService},
		{Pattern: "DELETE /v1/gateway/{service}", Role: access.Admin, Deed: "service.delete", Serve: a.DeleteService},

		{Pattern: "POST /v1/keys", Role: access.Admin, Deed: "key.create", Serve: a.CreateKey},
		{Pattern: "GET /v1/keys", Role: access.Admin, Serve: a.ListKeys},
		{Pattern: "DELETE /v1/keys/{id}", Role: access.Admin, Deed: "key.delete", Serve: a.DeleteKey},

		{Pattern: "GET /v1/audit", Role: access.Admin, Serve: a.ListDeeds},

		{Pattern: "GET /v1/channels", Role: access.Read, Serve: a.ListChannels},
		{Pattern: "GET /v1/channels/{channel}", Role: access.Read, Serve: a.GetChannel},
		{Pattern: "PUT /v1/channels/{channel}", Role: access.Admin, Deed: "channel.set", Serve: a.PutChannel},
		{Pattern: "DELETE /v1/channels/{channel}", Role: access.Admin, Deed: "channel.delete", Serve: a.DeleteChannel},
		{Pattern: "POST /v1/channels/{channel}/test", Role: access.Admin, Deed: "channel.test", Serve: a.TestChannel},

		{Pattern: "GET /v1/hooks", Role: access.Read, Serve: a.ListHooks},
		{Pattern: "GET /v1/hooks/{name}", Role: access.Read, Serve: a.GetHook},
		{Pattern: "PUT /v1/hooks/{name}", Role: access.Admin, Deed: "hook.set", Serve: a.PutHook},
		{Pattern: "DELETE /v1/hooks/{name}", Role: access.Admin, Deed: "hook.delete", Serve: a.DeleteHook},
		{Pattern: "POST /v1/hooks/{name}/replay", Role: access.Admin, Deed: "hook.replay", Serve: a.ReplayHook},
		{Pattern: "POST /v1/hooks/{name}/test", Role: access.Admin, Deed: "hook.test", Serve: a.TestHook},

		{Pattern: "GET /v1/sinks", Role: access.Read, Serve: a.ListSinks},
		{Pattern: "GET /v1/sinks/{sink}", Role: access.Read, Serve: a.GetSink},
		{Pattern: "PUT /v1/sinks/{sink}", Role: access.Admin, Deed: "sink.set", Serve: a.PutSink},
		{Pattern: "DELETE /v1/sinks/{sink}", Role: access.Admin, Deed: "sink.delete", Serve: a.DeleteSink},

		{Pattern: "GET /v1/sources", Role: access.Read, Serve: a.ListSources},
		{Pattern: "GET /v1/sources/{source}", Role: access.Read, Serve: a.GetSource},
		{Pattern: "PUT /v1/sources/{source}", Role: access.Admin, Deed: "source.set", Serve: a.PutSource},
		{Pattern: "DELETE /v1/sources/{source}", Role: access.Admin, Deed: "source.delete", Serve: a.DeleteSource},

		{Pattern: "GET /v1/cluster", Role: access.Read, Serve: a.Cluster},
		{Pattern: "DELETE /v1/cluster/{node}", Role: access.Admin, Deed: "node.forget", Serve: a.ForgetNode},
		{Pattern: "GET /v1/stats", Role: access.Read, Serve: a.Stats},
		{Pattern: "GET /v1/stats/history", Role: access.Read, Serve: a.History},
		{Pattern: "GET /v1/topics", Role: access.Read, Serve: a.Topics},
		{Pattern: "GET /v1/workers", Role: access.Read, Serve: a.Workers},
		{Pattern: "GET /v1/connections", Role: access.Read, Serve: a.Connections},
		{Pattern: "GET /v1/warnings", Role: access.Read, Serve: a.Warnings},
		{Pattern: "GET /v1/log", Role: access.Read, Serve: a.ListRecords},
		{Pattern: "GET /v1/settings", Role: access.Admin, Serve: a.ListSettings},
		{Pattern: "GET /metrics", Serve: a.Metrics()},
		{Pattern: "GET /debug/pprof/{name}", Role: access.Admin, Serve: a.Profile, Stream: true},
		{Pattern: "GET /healthz", Serve: a.Healthz},
		{Pattern: "GET /readyz", Serve: a.Readyz},
	}
}
