package campaign

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Book keeps campaigns.
type Book interface {
	// Insert stores a new campaign under its id. With an idempotency key that came before within a day it returns the
	// campaign made then, or ErrReused if its body differed.
	Insert(ctx context.Context, c *Campaign, idem string, body [32]byte) (first *Campaign, err error)
	// Made returns the campaign that an idempotency key has made within a day; nil: none. ErrReused: its body differed.
	Made(ctx context.Context, app, idem string, body [32]byte) (*Campaign, error)
	// Get fails with ErrNotFound.
	Get(ctx context.Context, app, id string) (*Campaign, error)
	// List returns an app's campaigns, newest first. cursor is the Num of the last one of the page before, or 0.
	List(ctx context.Context, app string, limit int, cursor int64) ([]*Campaign, error)
	// Figures returns the counts of a campaign's deliveries by outcome, from counters: it costs the same for any number.
	Figures(ctx context.Context, num int64) (*Figures, error)
	// Change changes a campaign in one transaction, unless change returns an error.
	Change(ctx context.Context, app, id string, change func(*Campaign) error) (*Campaign, error)
	// Remove deletes up to limit rows of a campaign's deliveries, and the campaign itself once there are none left.
	Remove(ctx context.Context, num int64, limit int) (done bool, err error)
	// Busy returns an app's campaigns that the engine has something to do for: scheduled, running, recalling, correcting, and
	// cancelled ones with deliveries that are still pending.
	Busy(ctx context.Context, app string) ([]*Campaign, error)
}

// ErrUncertain says that the store went away during a write, whose outcome is unknown. The next owner of the app finds
// out.
var ErrUncertain = errors.New("the store was away, and it is not known what it has stored")

// Queue stores deliveries. Those of an app have one owner. All writes of a sender carry an epoch: once another server owns
// the app, those of a former owner are refused (ErrStale).
type Queue interface {
	// Waiting lists the apps that need an owner: those with campaigns under way, and those with deliveries that are being
	// sent, or were when their owner ended.
	Waiting(ctx context.Context) (apps []string, err error)
	// Own takes an app's deliveries over and returns the new epoch, which is greater than all before.
	Own(ctx context.Context, app string) (epoch int64, err error)
	// Recover settles up to limit deliveries of an app that an earlier owner left as being sent: those of channels that
	// resend become pending and unsure, the others unknown. It returns how many there were.
	Recover(ctx context.Context, app string, epoch int64, limit int, resend []push.Channel, now time.Time) (n int, err error)
	// Enumerate adds deliveries for the next up to limit endpoints of the audience, in one transaction with the
	// campaign's cursor. due says when each is to be sent. done: the audience has no more.
	Enumerate(ctx context.Context, epoch, num int64, limit int, due func(*Target) time.Time) (n int, done bool, err error)
	// Due reads due pending deliveries of a channel, longest due first, with their endpoints.
	Due(ctx context.Context, num int64, ch push.Channel, now time.Time, limit int) ([]Target, error)
	// NextDue returns when the next pending delivery becomes due; ok is false if only held ones are left, if any.
	NextDue(ctx context.Context, num int64, ch push.Channel) (at time.Time, ok bool, err error)
	// Claim marks deliveries as being sent if the campaign is running and they are still pending, and returns those.
	// It returns once that is on disk: after it a crash leaves them unknown. ErrUncertain: nothing may be sent, and they may
	// be marked all the same.
	Claim(ctx context.Context, epoch, num int64, targets []Target, now time.Time) (claimed []Target, err error)
	// Finish writes results of deliveries, disables endpoints that are gone and updates those that moved, in one
	// transaction.
	Finish(ctx context.Context, epoch, num int64, results []Result, now time.Time) error
	// Sweep moves up to limit deliveries from one outcome to another and returns how many it moved.
	Sweep(ctx context.Context, num int64, s Sweep, limit int, now time.Time) (n int, err error)
}

// RecallQueue is the part of a store that recalls and corrections walk through.
type RecallQueue interface {
	// Recallable returns deliveries from a row on, in their order: accepted and unknown ones that were not tried yet.
	// next is the row to go on from; 0: that was the last one.
	Recallable(ctx context.Context, num, from int64, limit int) (sent []Target, next int64, err error)
	// FinishRecall writes outcomes and the recall's progress in one transaction.
	FinishRecall(ctx context.Context, epoch, num int64, results []RecallResult, next int64, now time.Time) error
	// FinishCorrection counts the corrected deliveries of a page, stores why the others were not corrected, and the
	// correction's progress, in one transaction. The page from row 0 on starts the count again. A campaign that is being
	// recalled by now keeps its progress.
	FinishCorrection(ctx context.Context, epoch, num int64, results []RecallResult, from, next int64, now time.Time) error
}

// ReportLooks limits how many deliveries are read for one page of those with an outcome.
const ReportLooks = 1000

// Reports reads the results of deliveries.
type Reports interface {
	// Deliveries returns deliveries in their order, after the row cursor; of one outcome, if only is not nil. A page may be short although
	// more follow, since no more than ReportLooks, or limit, are looked at: next is the row to go on after, 0: there are no more.
	Deliveries(ctx context.Context, num int64, only *Outcome, limit int, cursor int64) (list []Delivery, next int64, err error)
	// Days returns counts by day (UTC); of one campaign, or of the whole app if num is 0.
	Days(ctx context.Context, app string, num int64, from, to time.Time) ([]Day, error)
}

// Tracks notes what receivers report.
type Tracks interface {
	// Track notes that a delivery was shown, clicked or dismissed; the first time counts, again says false.
	Track(ctx context.Context, num, row int64, what Reaction, now time.Time) (first bool, err error)
	// TrackKey returns the app's secret for tracking tokens, made on first use.
	TrackKey(ctx context.Context, app string) ([]byte, error)
}

// Store is all of that.
type Store interface {
	Book
	Queue
	RecallQueue
	Reports
	Tracks
	// Endpoints reads endpoints by id, for test messages; unknown ones are left out.
	Endpoints(ctx context.Context, app string, ids []audience.ID) ([]audience.Endpoint, error)
	// CountEndpoints counts the active endpoints of an audience by channel.
	CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error)
	// EnsureLive makes an endpoint of channel live for recipients that have none.
	EnsureLive(ctx context.Context, app string, recipients []string) error
}

// RecallResult is the result of a recall or a correction of one delivery.
type RecallResult struct {
	Row     int64
	Channel push.Channel
	Done    bool
	Detail  string // why not
}

// Sweep says which deliveries change to which outcome.
type Sweep struct {
	From   Outcome
	Held   bool // only those that are held
	To     Outcome
	Detail string
	Due    time.Time // of those that become pending
}

// Delivery is one row of a campaign's report.
type Delivery struct {
	Row       int64
	ID        string // UUID
	Endpoint  string // its id
	Recipient string // as long as the endpoint exists
	Channel   push.Channel
	Outcome   Outcome
	Detail    string
	Attempts  int
	Unsure    bool
	Due       time.Time // of pending ones that wait; zero: at once
	Held      bool
	At        time.Time // of the last change; zero: none yet
	External  string
	Shown     bool
	Clicked   bool
	Dismissed bool
	Recall    string // why it could not be recalled
	// Correction is why it could not be corrected.
	Correction string
}

// Reaction is a receiver's reaction to a message.
type Reaction = push.Reaction

// Reactions.
const (
	Shown     = push.Shown
	Clicked   = push.Clicked
	Dismissed = push.Dismissed
)

// Day counts the events of a day (UTC).
type Day struct {
	Day       time.Time
	Outcomes  map[Outcome]int64
	Reactions map[Reaction]int64
}
