package backend

import (
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// PublishPattern is the route of a publish; connections handed over to package direct answer it too.
const PublishPattern = "POST /v1/notifications"

// Routes returns the calls of this package.
func (a *API) Routes() []call.Route {
	return []call.Route{
		{Pattern: PublishPattern, Role: access.Publish, Serve: a.Publish},
		{Pattern: "GET /v1/notifications", Role: access.Read, Serve: a.ListNotifications},
		{Pattern: "POST /v1/notifications/batch", Role: access.Publish, Serve: a.PublishBatch, Stream: true},
		{Pattern: "POST /v1/notify/{recipient}", Role: access.Publish, Serve: a.Notify},
		{Pattern: "GET /v1/notifications/{id}", Role: access.Read, Serve: a.Status},
		{Pattern: "GET /v1/notifications/{id}/timeline", Role: access.Read, Serve: a.Timeline, Stream: true},
		{Pattern: "DELETE /v1/notifications/{id}", Role: access.Publish, Serve: a.Recall},

		{Pattern: "GET /v1/recipients", Role: access.Read, Serve: a.ListRecipients},
		{Pattern: "GET /v1/recipients/{id}", Role: access.Read, Serve: a.GetRecipient},
		{Pattern: "GET /v1/recipients/{id}/timeline", Role: access.Read, Serve: a.RecipientTimeline},
		{Pattern: "GET /v1/recipients/{id}/notifications", Role: access.Read, Serve: a.History},
		{Pattern: "DELETE /v1/recipients/{id}", Role: access.Publish, Action: "recipient.erase", Serve: a.Erase},
		{Pattern: "DELETE /v1/recipients/{id}/sessions", Role: access.Publish, Action: "recipient.disconnect", Serve: a.Disconnect},

		{Pattern: "PUT /v1/objects/{group}/{object}", Role: access.Publish, Serve: a.PutObject},
		{Pattern: "POST /v1/objects/{group}/{object}", Role: access.Publish, Serve: a.PutObject}, // for publishers that can only post
		{Pattern: "DELETE /v1/objects/{group}/{object}", Role: access.Publish, Action: "object.delete", Serve: a.DeleteObject},
		{Pattern: "GET /v1/objects/{group}/{object}", Role: access.Read, Serve: a.GetObject},
		{Pattern: "GET /v1/objects", Role: access.Read, Serve: a.ListGroups},
		{Pattern: "GET /v1/objects/{group}", Role: access.Read, Serve: a.ListObjects},
		{Pattern: "GET /v1/objects/{group}/{object}/registrations", Role: access.Read, Serve: a.Registrations},
		{Pattern: "PUT /v1/objects/{group}/{object}/broadcast", Role: access.Publish, Action: "broadcast.make", Serve: a.PutBroadcast},
		{Pattern: "GET /v1/objects/{group}/{object}/broadcast", Role: access.Read, Serve: a.GetBroadcast},
		{Pattern: "DELETE /v1/objects/{group}/{object}/broadcast", Role: access.Publish, Action: "broadcast.delete", Serve: a.DeleteBroadcast},

		{Pattern: "POST /v1/topics/{topic}", Role: access.Publish, Serve: a.PublishTopic},

		{Pattern: "GET /v1/endpoints", Role: access.Read, Serve: a.ListEndpoints},
		{Pattern: "POST /v1/endpoints/batch", Role: access.Publish, Action: "audience.import", Serve: a.RegisterBatch, Stream: true},
		{Pattern: "GET /v1/endpoints/export", Role: access.Read, Action: "audience.export", Serve: a.ExportEndpoints, Stream: true},
		{Pattern: "GET /v1/audience", Role: access.Read, Serve: a.AudienceTotals},
		{Pattern: "GET /v1/audience/days", Role: access.Read, Serve: a.AudienceDays},
		{Pattern: "POST /v1/audience/count", Role: access.Read, Serve: a.CountAudience},
		{Pattern: "GET /v1/segments/{name}/count", Role: access.Read, Serve: a.CountSegment},

		{Pattern: "POST /v1/requests/{subject}", Role: access.Publish, Serve: a.Ask, Stream: true},
		{Pattern: "POST /v1/recipients/{id}/requests", Role: access.Publish, Serve: a.AskRecipient, Stream: true},

		{Pattern: "GET /v1/events", Role: access.Read, Serve: a.FollowEvents, Stream: true},

		{Pattern: "POST /v1/campaigns", Role: access.Publish, Action: "campaign.create", Serve: a.CreateCampaign},
		{Pattern: "GET /v1/campaigns", Role: access.Read, Serve: a.ListCampaigns},
		{Pattern: "GET /v1/campaigns/days", Role: access.Read, Serve: a.CampaignDays},
		{Pattern: "GET /v1/campaigns/{id}", Role: access.Read, Serve: a.GetCampaign},
		{Pattern: "PUT /v1/campaigns/{id}", Role: access.Publish, Action: "campaign.change", Serve: a.ReviseCampaign},
		{Pattern: "DELETE /v1/campaigns/{id}", Role: access.Publish, Action: "campaign.delete", Serve: a.DeleteCampaign},
		{Pattern: "POST /v1/campaigns/{id}/start", Role: access.Publish, Action: "campaign.start", Serve: a.StartCampaign},
		{Pattern: "POST /v1/campaigns/{id}/pause", Role: access.Publish, Action: "campaign.pause", Serve: a.PauseCampaign},
		{Pattern: "POST /v1/campaigns/{id}/resume", Role: access.Publish, Action: "campaign.resume", Serve: a.ResumeCampaign},
		{Pattern: "POST /v1/campaigns/{id}/cancel", Role: access.Publish, Action: "campaign.cancel", Serve: a.CancelCampaign},
		{Pattern: "POST /v1/campaigns/{id}/recall", Role: access.Publish, Action: "campaign.recall", Serve: a.RecallCampaign},
		{Pattern: "POST /v1/campaigns/{id}/correct", Role: access.Publish, Action: "campaign.correct", Serve: a.CorrectCampaign},
		{Pattern: "POST /v1/campaigns/{id}/decide", Role: access.Publish, Action: "campaign.decide", Serve: a.DecideCampaign},
		{Pattern: "POST /v1/campaigns/{id}/clone", Role: access.Publish, Action: "campaign.clone", Serve: a.CloneCampaign},
		{Pattern: "POST /v1/campaigns/{id}/retry-unknown", Role: access.Publish, Action: "campaign.retry-unknown", Serve: a.RetryUnknown},
		{Pattern: "POST /v1/campaigns/{id}/test", Role: access.Publish, Action: "campaign.test", Serve: a.TestCampaign},
		{Pattern: "POST /v1/campaigns/{id}/preview", Role: access.Read, Serve: a.PreviewCampaign},
		{Pattern: "GET /v1/campaigns/{id}/deliveries", Role: access.Read, Serve: a.Deliveries, Stream: true},
		{Pattern: "GET /v1/campaigns/{id}/events", Role: access.Read, Serve: a.CampaignEvents, Stream: true},
		{Pattern: "GET /v1/campaigns/{id}/days", Role: access.Read, Serve: a.CampaignDays},
		{Pattern: "GET /v1/templates", Role: access.Read, Serve: a.ListTemplates},
		{Pattern: "GET /v1/templates/{name}", Role: access.Read, Serve: a.GetTemplate},
		{Pattern: "GET /v1/templates/{name}/revisions", Role: access.Read, Serve: a.ListTemplateRevisions},
		{Pattern: "PUT /v1/templates/{name}", Role: access.Publish, Action: "template.set", Serve: a.PutTemplate},
		{Pattern: "DELETE /v1/templates/{name}", Role: access.Publish, Action: "template.delete", Serve: a.DeleteTemplate},
		{Pattern: "POST /v1/templates/{name}/preview", Role: access.Read, Serve: a.PreviewTemplate},
	}
}
