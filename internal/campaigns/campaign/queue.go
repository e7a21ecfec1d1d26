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
	// Insert stores a new campaign under its id. If the idempotency key was used within a day, it returns the campaign created then, or
	// ErrReused if the body differs.
	Insert(ctx context.Context, c *Campaign, idem string, body [32]byte) (first *Campaign, err error)
	// Made returns the campaign that was created with an idempotency key within a day; nil: there is none. It fails with ErrReused if the
	// body differs.
	Made(ctx context.Context, app, idem string, body [32]byte) (*Campaign, error)
	// Get fails with ErrNotFound.
	Get(ctx context.Context, app, id string) (*Campaign, error)
	// List returns an app's campaigns, newest first. cursor is the Num of the previous page's last campaign, or 0.
	List(ctx context.Context, app string, limit int, cursor int64) ([]*Campaign, error)
	// Figures returns the numbers of a campaign's deliveries by outcome. It reads counters, so the cost does not depend on the numbers.
	Figures(ctx context.Context, num int64) (*Figures, error)
	// Unbegun returns an app's campaigns that have not begun and still may: drafts, scheduled ones, and those that were paused before.
	Unbegun(ctx context.Context, app string) ([]*Campaign, error)
	// Change changes a campaign in one transaction, unless change returns an error.
	Change(ctx context.Context, app, id string, change func(*Campaign) error) (*Campaign, error)
	// Remove deletes up to limit rows of a campaign's deliveries, and the campaign itself when no rows are left.
	Remove(ctx context.Context, num int64, limit int) (done bool, err error)
	// Busy returns an app's campaigns for which the engine has work: scheduled, running, recalling, correcting, and cancelled ones with
	// pending deliveries.
	Busy(ctx context.Context, app string) ([]*Campaign, error)
}

// ErrUncertain means that the store became unavailable during a write, whose result is unknown. The app's next owner finds it out.
var ErrUncertain = errors.New("the store was away, and it is not known what it has stored")

// Queue stores deliveries. Each app's deliveries have one owner. All writes of a sender carry an epoch: after another server has become the
// owner, writes with the former epoch fail with ErrStale.
type Queue interface {
	// Waiting lists the apps that need an owner: those with campaigns under way, and those with deliveries that are being sent, or were
	// when their owner ended.
	Waiting(ctx context.Context) (apps []string, err error)
	// Own takes over an app's deliveries and returns the new epoch, which is greater than all before.
	Own(ctx context.Context, app string) (epoch int64, err error)
	// Recover settles up to limit deliveries that an app's earlier owner left as being sent. Those of channels in resend become pending and
	// unsure, the others unknown. It returns their number.
	Recover(ctx context.Context, app string, epoch int64, limit int, resend []push.Channel, now time.Time) (n int, err error)
	// Enumerate adds deliveries for up to limit further endpoints of the audience, and advances the campaign's cursor, in one transaction.
	// place is called with the row, the ids, the channel and the time zone of each. done: the audience has no more endpoints.
	Enumerate(ctx context.Context, epoch, num int64, limit int, place func(*Target) Place) (n int, done bool, err error)
	// Untried reports whether a delivery that does not wait for a decision, and is not held, waits for its first attempt. Those that a limit
	// of their category has put off do not count.
	Untried(ctx context.Context, num int64) (bool, error)
	// Release makes up to limit deliveries due that wait for a decision, each after its delay from the time at. It returns how many.
	Release(ctx context.Context, num int64, at time.Time, limit int) (n int, err error)
	// Due reads due pending deliveries of a channel, longest due first, with their endpoints.
	Due(ctx context.Context, num int64, ch push.Channel, now time.Time, limit int) ([]Target, error)
	// NextDue returns when the next pending delivery becomes due; ok is false if none is pending except held ones.
	NextDue(ctx context.Context, num int64, ch push.Channel) (at time.Time, ok bool, err error)
	// LastDue returns when the last pending delivery becomes due; ok is false if none is pending except held ones and those that wait for a
	// decision.
	LastDue(ctx context.Context, num int64, ch push.Channel) (at time.Time, ok bool, err error)
	// Claim marks deliveries as being sent if the campaign is running and they are still pending, and returns those. It returns after the
	// marks are on disk: a crash after it makes the deliveries unknown. On ErrUncertain, nothing may be sent, although the marks may be
	// stored.
	Claim(ctx context.Context, epoch, num int64, targets []Target, now time.Time) (claimed []Target, err error)
	// Finish writes results of deliveries, disables endpoints whose address is gone and updates those whose address has changed, in one
	// transaction.
	Finish(ctx context.Context, epoch, num int64, results []Result, now time.Time) error
	// Sweep moves up to limit deliveries from one outcome to another and returns how many it moved.
	Sweep(ctx context.Context, num int64, s Sweep, limit int, now time.Time) (n int, err error)
}

// Place is where a new delivery stands in the queue.
type Place struct {
	Group Group
	Due   time.Time
	Waits bool          // for the decision between variants, in the place of Due
	After time.Duration // of that decision
}

// RecallQueue is the part of a store that recalls and corrections use.
type RecallQueue interface {
	// Recallable returns deliveries in the order of rows, beginning at row from: accepted and unknown ones that this recall has not tried
	// yet. next is the row to continue from; 0: there are no more.
	Recallable(ctx context.Context, num, from int64, limit int) (sent []Target, next int64, err error)
	// FinishRecall writes outcomes and the recall's progress in one transaction.
	FinishRecall(ctx context.Context, epoch, num int64, results []RecallResult, next int64, now time.Time) error
	// FinishCorrection processes a page's results in one transaction: it counts the corrected deliveries, stores why others were not
	// corrected, and stores the correction's progress. The page from row 0 resets the count. If the campaign is being recalled by now, its
	// progress does not change.
	FinishCorrection(ctx context.Context, epoch, num int64, results []RecallResult, from, next int64, now time.Time) error
}

// ReportLooks limits the number of deliveries that are read for one page with an outcome filter.
const ReportLooks = 1000

// Reports reads the results of deliveries.
type Reports interface {
	// Deliveries returns deliveries after the row cursor, in order; if only is not nil, those with this outcome. A page may be short
	// although more follow, because it reads at most ReportLooks or limit deliveries: next is the row after which to continue; 0: there are
	// no more.
	Deliveries(ctx context.Context, num int64, only *Outcome, limit int, cursor int64) (list []Delivery, next int64, err error)
	// DeliveriesTo returns the deliveries to the endpoints that a recipient has now, in order, at most ReportLooks.
	DeliveriesTo(ctx context.Context, app string, num int64, recipient string) ([]Delivery, error)
	// Days returns counts by day (UTC) of one campaign; if num is 0, of the whole app.
	Days(ctx context.Context, app string, num int64, from, to time.Time) ([]Day, error)
}

// Tracks notes what receivers report.
type Tracks interface {
	// Track records that a delivery was shown, clicked or dismissed. Only the first time counts; for repeats, first is false.
	Track(ctx context.Context, num, row int64, what Reaction, now time.Time) (first bool, err error)
	// TrackKey returns the app's secret for tracking tokens, and creates it on first use.
	TrackKey(ctx context.Context, app string) ([]byte, error)
}

// Limits reads what limits on campaigns of a category count.
type Limits interface {
	// Since returns an app's campaigns that have started and have not ended before a time.
	Since(ctx context.Context, app string, since time.Time) ([]*Campaign, error)
	// Got returns, for each target, when each of these campaigns last reached its person after since, newest first. A person has all
	// endpoints of the recipient; one without a recipient has the endpoint alone. Deliveries under way and unknown ones count.
	Got(ctx context.Context, app string, nums []int64, targets []Target, since time.Time) ([][]time.Time, error)
}

// Store is all of that.
type Store interface {
	Limits
	Book
	Queue
	RecallQueue
	Reports
	Tracks
	// Endpoints returns endpoints by id, for test messages; unknown ids are skipped.
	Endpoints(ctx context.Context, app string, ids []audience.ID) ([]audience.Endpoint, error)
	// CountEndpoints counts the active endpoints of an audience by channel.
	CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error)
	// EnsureLive creates an endpoint of channel live for each of the recipients that has none.
	EnsureLive(ctx context.Context, app string, recipients []string) error
}

// RecallResult is the result of a recall or a correction of one delivery.
type RecallResult struct {
	Row     int64
	Channel push.Channel
	Done    bool
	Detail  string // why not
}

// Sweep selects deliveries and the outcome to which they change.
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
	Recipient string // present as long as the endpoint exists
	Channel   push.Channel
	Outcome   Outcome
	Detail    string
	Attempts  int
	Unsure    bool
	Due       time.Time // when a waiting pending delivery is due; zero: at once
	Held      bool
	Waits     bool      // for the decision between variants
	Group     Group     // of a campaign with variants
	Variant   string    // that it got or will get: A or B; empty: there are none, or it is not decided
	At        time.Time // time of the last change; zero: none yet
	External  string
	Shown     bool
	Clicked   bool
	Dismissed bool
	Recall    string // why the message could not be recalled
	// Correction is why the message could not be corrected.
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

// Day has the counts of a day's events (UTC).
type Day struct {
	Day       time.Time
	Outcomes  map[Outcome]int64
	Reactions map[Reaction]int64
}
