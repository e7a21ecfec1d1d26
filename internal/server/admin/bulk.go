package admin

import (
	"context"
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/server/admin/words"
)

// mostPicked limits the campaigns that one form names: as many as a page lists.
const mostPicked = pageSize

// bulkActions are the operations on several campaigns at once, each with the words that report its success.
var bulkActions = map[string]struct {
	one, many string
	do        func(ctx context.Context, c Campaigns, app, id string) error
}{
	"cancel": {"%s campaign: cancelled.", "%s campaigns: cancelled.", func(ctx context.Context, c Campaigns, app, id string) error {
		_, err := c.Cancel(ctx, app, id)
		return err
	}},
	"delete": {"%s campaign: deleted.", "%s campaigns: deleted.", func(ctx context.Context, c Campaigns, app, id string) error {
		return c.Delete(ctx, app, id, setting.Match{})
	}},
	"retry": {"%s campaign: sent again where it was unknown whether they arrived.", "%s campaigns: sent again where it was unknown whether they arrived.", func(ctx context.Context, c Campaigns, app, id string) error {
		_, err := c.RetryUnknown(ctx, app, id)
		return err
	}},
}

// bulkButton is a button below the list.
type bulkButton struct {
	action
	Cursor int64
}

func newBulkButton(l *words.Language, name string, cursor int64) bulkButton {
	return bulkButton{map[string]action{
		"retry":  {Name: "retry", Label: l.T("Resend unknown"), Class: "quiet", Confirm: l.T("Some may get it twice. Send again what may not have arrived of all that are ticked?")},
		"cancel": {Name: "cancel", Label: l.T("Cancel"), Class: "danger", Confirm: l.T("What has not been sent yet will never be. Cancel all that are ticked?")},
		"delete": {Name: "delete", Label: l.T("Delete"), Class: "danger", Confirm: l.T("Delete all that are ticked, and all that is known of their messages?")},
	}[name], cursor}
}

// bulk is the result of an action on several campaigns.
type bulk struct {
	Done     string   // empty: nothing was done
	Problems []string // of the campaigns on which the action failed
}

// actOnCampaigns does one action on all ticked campaigns. A failure on one does not affect the others.
func (a *admin) actOnCampaigns(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	ctx, app := v.r.Context(), v.person.App
	name, ids := text(v.r.PostForm, "deed"), v.r.PostForm["id"]
	action, ok := bulkActions[name]
	if !ok {
		return mistaken(http.StatusNotFound, "There is no such action.")
	}
	var b bulk
	if len(ids) == 0 || len(ids) > mostPicked {
		b.Problems = []string{v.t("Tick from 1 to %s campaigns.", mostPicked)}
		return a.showCampaigns(v, &b)
	}
	done := 0
	for _, id := range ids {
		err := action.do(ctx, a.Campaigns, app, id)
		var wrong *mistake
		switch err = explain(err); {
		case err == nil:
			done++
			a.Log.InfoContext(ctx, "campaign changed on the web page", "app", app, "campaign", id, "action", name, "by", v.person.Name())
		case errors.As(err, &wrong):
			b.Problems = append(b.Problems, a.called(ctx, app, id)+": "+wrong.in(v.lang))
		default:
			return err
		}
	}
	if done > 0 {
		b.Done = v.tn(int64(done), action.one, action.many)
	}
	return a.showCampaigns(v, &b)
}

// called returns a campaign's name, or its id if it has none.
func (a *admin) called(ctx context.Context, app, id string) string {
	if c, err := a.Campaigns.Get(ctx, app, id); err == nil {
		return named(c)
	}
	return clip(id, 40)
}
