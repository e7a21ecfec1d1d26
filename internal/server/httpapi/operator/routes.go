package operator

import (
	"slices"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Routes returns the calls of this package.
func (a *API) Routes() []call.Route {
	return slices.Concat(a.keyRoutes(), a.categories().routes(a), a.batches().routes(a), a.services().routes(a), a.channels().routes(a), a.hooks().routes(a), a.segments().routes(a), a.sinks().routes(a), a.sources().routes(a), a.sourceRoutes(), a.appRoutes(), []call.Route{
		a.testRoute(),
		{Pattern: "GET /v1/audit", Role: access.Admin, Operator: call.AppOrAll, Serve: a.ListAudit},

		{Pattern: "POST /v1/channels/{channel}/files", Role: access.Publish, Action: "channel.upload", Serve: a.UploadFile, Stream: true},

		{Pattern: "POST /v1/hooks/{name}/replay", Role: access.Admin, Operator: call.AnyApp, Action: "hook.replay", Serve: a.ReplayHook},
		{Pattern: "POST /v1/hooks/{name}/test", Role: access.Admin, Operator: call.AnyApp, Action: "hook.test", Serve: a.TestHook},

		{Pattern: "GET /v1/cluster", Role: access.Read, Serve: a.Cluster},
		{Pattern: "DELETE /v1/cluster/{node}", Role: access.Admin, Action: "node.forget", Serve: a.ForgetNode},
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
	})
}

// SettingsRoutes returns the calls that work on a data folder without a server: those about apps, keys and settings.
func (a *API) SettingsRoutes() []call.Route {
	return slices.Concat(a.keyRoutes(), a.appRoutes(), a.categories().routes(a), a.batches().routes(a), a.services().routes(a), a.channels().routes(a), a.sinks().routes(a), a.sources().routes(a),
		[]call.Route{a.testRoute(), a.previewRoute()})
}

// keyRoutes returns the calls about keys and tokens.
func (a *API) keyRoutes() []call.Route {
	return []call.Route{
		{Pattern: "POST /v1/keys", Role: access.Admin, Operator: call.AnyApp, Action: "key.create", Serve: a.CreateKey},
		{Pattern: "GET /v1/keys", Role: access.Admin, Operator: call.AnyApp, Serve: a.ListKeys},
		{Pattern: "GET /v1/keys/{id}", Role: access.Admin, Operator: call.AnyApp, Serve: a.GetKey},
		{Pattern: "DELETE /v1/keys/{id}", Role: access.Admin, Operator: call.AnyApp, Action: "key.delete", Serve: a.DeleteKey},
		{Pattern: "POST /v1/tokens", Role: access.Admin, Operator: call.AnyApp, Action: "token.mint", Serve: a.MintToken},
	}
}

func (a *API) testRoute() call.Route {
	return call.Route{Pattern: "POST /v1/channels/{channel}/test", Role: access.Admin, Operator: call.AnyApp, Action: "channel.test", Serve: a.TestChannel}
}
