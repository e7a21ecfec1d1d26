package public

import (
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Routes returns the calls of this package.
func (a *API) Routes() []call.Route {
	return []call.Route{
		{Pattern: "GET /v1/recipients/{id}/preferences", Serve: a.GetPreferences},
		{Pattern: "PUT /v1/recipients/{id}/preferences", Serve: a.PutPreferences},
		{Pattern: "DELETE /v1/recipients/{id}/preferences", Serve: a.DeletePreferences},
		{Pattern: "OPTIONS /v1/recipients/{id}/preferences", Serve: a.PreferencesPreflight},

		{Pattern: "POST /v1/endpoints", Serve: a.RegisterEndpoint},
		{Pattern: "OPTIONS /v1/endpoints", Serve: a.EndpointsPreflight},
		{Pattern: "GET /v1/endpoints/{id}", Serve: a.GetEndpoint},
		{Pattern: "PATCH /v1/endpoints/{id}", Serve: a.ChangeEndpoint},
		{Pattern: "DELETE /v1/endpoints/{id}", Serve: a.DeleteEndpoint},
		{Pattern: "OPTIONS /v1/endpoints/{id}", Serve: a.EndpointsPreflight},
		{Pattern: "POST /compat/perfecty/{app}/v1/push/users", Serve: a.PerfectyRegister},
		{Pattern: "GET /compat/perfecty/{app}/v1/push/users/{uuid}", Serve: a.PerfectyUser},
		{Pattern: "POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", Serve: a.PerfectyUnregister},
		{Pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users", Serve: a.PerfectyPreflight},
		{Pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}", Serve: a.PerfectyPreflight},
		{Pattern: "OPTIONS /compat/perfecty/{app}/v1/push/users/{uuid}/unregister", Serve: a.PerfectyPreflight},

		{Pattern: "POST /v1/acks", Serve: a.Acks},
		{Pattern: "OPTIONS /v1/acks", Serve: a.AcksPreflight},

		{Pattern: "GET /v1/webpush/key", Serve: a.WebPushKey},

		{Pattern: "POST /v1/track", Serve: a.Track},
		{Pattern: "OPTIONS /v1/track", Serve: a.TrackPreflight},
		{Pattern: "GET /v1/click/{token}", Serve: a.Click},

		{Pattern: "GET /problems/{slug}", Serve: a.Explain},
		{Pattern: "GET /openapi.yaml", Serve: a.OpenAPI},
		{Pattern: "GET /sdk/{file}", Serve: a.SDK()},
	}
}
